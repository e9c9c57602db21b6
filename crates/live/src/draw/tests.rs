//! Screens of a fixed profile.

use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;

use super::*;
use crate::Figures;
use crate::app::Status;
use crate::interval::{Interval, Mode, Part};
use crate::keys::Key;
use crate::test_profile::{Thread, second};

fn ledger(samples: u64) -> Figures {
    let entries = [("samples", samples), ("walks.root", samples), ("symbolized_pct", 98)];
    let entries: Vec<_> = entries.map(|(key, value)| (key.to_owned(), value.to_string())).into();
    Figures::of(&entries)
}

/// A web server and a database, 12 seconds of them.
fn app() -> App {
    let server = [
        (
            "_start@server;main@server;serve@server;handle@server;render@libtemplate.so;escape@libtemplate.so",
            31,
        ),
        ("_start@server;main@server;serve@server;handle@server;render@libtemplate.so", 9),
        (
            "_start@server;main@server;serve@server;handle@server;query@libdb.so;send@libc.so.6;tcp_sendmsg@kernel",
            7,
        ),
        ("_start@server;main@server;serve@server;accept@libc.so.6", 2),
        ("@libtls.so;@libtls.so", 1),
    ];
    let database = [("_start@db;loop@db;scan@db", 20), ("[truncated: no unwind information];scan@db", 4)];
    let threads = [
        Thread { comm: "server", pid: 4711, tid: 4712, stacks: &server },
        Thread { comm: "db\u{1b}[2J", pid: 99, tid: 99, stacks: &database },
    ];
    let mut app = App::new(&[Mode::OnCpu, Mode::OffCpu]);
    for start in 0..12 {
        let profile = second(1_700_000_000 + start, &threads);
        app.add(&Interval { parts: vec![Part { mode: Mode::OnCpu, profile, figures: ledger(74) }] });
    }
    app.set_status(Status {
        target: "pid 4711 (server) and 1 child".to_owned(),
        seconds: 12,
        agent_pct: 0.84,
        agent_mib: 41,
        ..Status::default()
    });
    app
}

fn screen(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(app, Theme::Colours, frame.area(), frame.buffer_mut())).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let key = match key {
            '\n' => Key::Enter,
            '\t' => Key::Tab,
            '\u{1b}' => Key::Esc,
            key => Key::Char(key),
        };
        app.press(key);
    }
}

#[test]
fn the_first_screen_has_facts_load_processes_and_functions() {
    let lines = screen(&mut app(), 80, 24);
    let expected = [
        "perf-agent live  pid 4711 (server) and 1 child        LIVE on-CPU last 10 s  12s",
        "888 samples  100.0% rooted  98.0% named  0 lost  agent 0.8% CPU 41 MiB",
        "CPU 74% (most 74%) ████████████",
        "server (4711) 67.6%   db\\u{1b}[2J (99) 32.4%",
        "   SELF   total             function                            file",
        "  41.9%   41.9% ████▏       escape                              libtemplate.so",
        "  32.4%   32.4% ███▏        scan                                db",
        "  12.2%   54.1% █▏          render                              libtemplate.so",
        "   9.5%    9.5% ▉           tcp_sendmsg                         [kernel]",
        "   2.7%    2.7% ▎           accept                              libc.so.6",
        "   1.4%    1.4% ▏           [no name in libtls.so]              libtls.so",
        "          66.2%             _start                              server",
        "          66.2%             main                                server",
        "          66.2%             serve                               server",
        "          63.5%             handle                              server",
        "          27.0%             _start                              db",
        "          27.0%             loop                                db",
        "           9.5%             query                               libdb.so",
        "           9.5%             send                                libc.so.6",
        "           5.4%             [truncated: no unwind information]",
    ];
    assert_eq!(lines[..20], expected, "{lines:#?}");
    assert!(lines[23].starts_with("q quit  ? help  Tab off-CPU  2 tree  t threads"), "{}", lines[23]);
}

#[test]
fn names_to_come_are_told_as_there_is_room() {
    let mut app = app();
    app.status.names_left = 1234;
    let told = |app: &mut App, width| screen(app, width, 24)[1].clone();
    let facts = told(&mut app, 200).strip_suffix("  1,234 names to come").unwrap().to_owned();
    let length = facts.len() as u16;
    assert_eq!(told(&mut app, length + 21), format!("{facts}  1,234 names to come"));
    assert_eq!(told(&mut app, length + 20), format!("{facts}  naming"));
    assert_eq!(told(&mut app, length + 7), facts);
}

#[test]
fn a_wide_screen_has_the_tree_beside_the_functions() {
    let lines = screen(&mut app(), 200, 60);
    let (left, right) = lines[5].split_once('│').unwrap();
    let functions =
        "  41.9%   41.9% ████▏       escape                                      libtemplate.so      native";
    assert_eq!(left.trim_end(), functions, "{lines:#?}");
    assert_eq!(right, "           67.6% ██████▊     ▾ server (4711)", "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("_start › main › serve")), "{lines:#?}");
}

#[test]
fn every_size_can_be_drawn() {
    for (width, height) in [(1, 1), (19, 4), (20, 5), (33, 9), (80, 6), (40, 200), (500, 10)] {
        for keys in ["", "2", "3", "4", "?", "\n", "w", "/x"] {
            let mut app = app();
            press(&mut app, keys);
            screen(&mut app, width, height);
        }
    }
    let narrow = screen(&mut app(), 40, 12);
    assert_eq!(narrow[5], "  41.9%   41.9%  escape", "{narrow:#?}");
}

#[test]
fn text_of_a_target_controls_no_terminal() {
    let mut app = app();
    app.say("wrote a\u{1b}[2J".to_owned());
    for keys in ["", "2", "3", "4"] {
        press(&mut app, keys);
        assert!(!screen(&mut app, 200, 60).concat().contains('\u{1b}'));
    }
}

#[test]
fn the_tree_opens_and_folds() {
    let mut app = app();
    press(&mut app, "2");
    let tree = screen(&mut app, 80, 24);
    assert!(tree[5].contains("▾ server (4711)") && tree[6].contains("▾ _start › main › serve"), "{tree:#?}");
    press(&mut app, "h");
    let tree = screen(&mut app, 80, 24);
    assert!(tree[5].contains("▸ server (4711)") && tree[6].contains("▾ db"), "{tree:#?}");
    press(&mut app, "l");
    assert!(screen(&mut app, 80, 24)[6].contains("serve"));
}

#[test]
fn enter_leads_to_callers_and_callees_and_escape_back() {
    let mut app = app();
    press(&mut app, "jj\n");
    let lines = screen(&mut app, 80, 24);
    assert!(lines[5].contains("54.1%") && lines[5].contains("← handle"), "{lines:#?}");
    assert!(lines[6].starts_with("  12.2%   54.1%") && lines[6].contains("● render"), "{lines:#?}");
    assert!(lines[7].contains("41.9%") && lines[7].contains("→ escape"), "{lines:#?}");
    press(&mut app, "\u{1b}");
    assert!(screen(&mut app, 80, 24)[5].contains("escape"));
}

#[test]
fn a_process_alone_and_a_filter_are_told() {
    let mut app = app();
    press(&mut app, "3j\n");
    let lines = screen(&mut app, 80, 24);
    assert!(lines[0].contains("only db\\u{1b}[2J (99)"), "{lines:#?}");
    assert!(lines[4].starts_with(" 100.0%  100.0%") && lines[4].contains("scan"), "{lines:#?}");
    press(&mut app, "\u{1b}1fQUERY\n");
    let lines = screen(&mut app, 80, 24);
    assert!(lines[4].contains("100.0%") && lines[4].contains("tcp_sendmsg"), "{lines:#?}");
    assert!(lines[23].starts_with("only stacks with \"query\""), "{lines:#?}");
}

#[test]
fn pause_stops_the_picture_and_not_the_capture() {
    let mut app = app();
    press(&mut app, " ");
    let before = screen(&mut app, 80, 24);
    assert!(before[0].contains("PAUSED"), "{before:#?}");
    let busy = [("work@busy", 500)];
    let profile = second(1_700_000_012, &[Thread { comm: "busy", pid: 7, tid: 7, stacks: &busy }]);
    app.add(&Interval { parts: vec![Part { mode: Mode::OnCpu, profile, figures: ledger(500) }] });
    assert_eq!(screen(&mut app, 80, 24), before);
    press(&mut app, " ");
    assert!(screen(&mut app, 80, 24)[5].contains("work"));
}

#[test]
fn losses_and_the_end_are_told() {
    let mut app = app();
    let facts =
        "on-CPU: pid 4711 (server) and 1 child, 12 s, 888 samples, 100.0 % rooted, 98.0 % named, 0 lost";
    assert_eq!(app.facts()[0], facts);
    app.set_status(Status { ended: Some("all targets have exited".to_owned()), ..Status::default() });
    let lines = screen(&mut app, 80, 24);
    assert!(
        lines[0].contains("ENDED") && lines[23].starts_with("all targets have exited  q quit"),
        "{lines:#?}"
    );
}
