//! Chromium without a window, driven through its debugging pipe: commands and answers in JSON, each ended by NUL.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::PATIENCE;

/// A browser with one page. It ends with this value, and all its files are in a folder that is removed then.
#[derive(Debug)]
pub struct Browser {
    process: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    session: String,
    last: u64,
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// None if Chromium is not installed: then the reason of the skip is printed.
    pub fn start() -> Option<Self> {
        let program = crate::needed("chromium")?;
        let profile = tempfile::tempdir().unwrap();
        // The pipe is expected at descriptors 3 and 4, and root cannot have the sandbox.
        let script = "exec \"$0\" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
                      --disable-background-networking --force-prefers-reduced-motion --remote-debugging-pipe \
                      --user-data-dir=\"$1\" --window-size=1200,900 about:blank 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut process = Command::new("sh")
            .args(["-c", script])
            .arg(program)
            .arg(profile.path())
            .env("HOME", profile.path())
            .env("TMPDIR", profile.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_CACHE_HOME")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (commands, answers) = (process.stdin.take(), process.stdout.take().unwrap());
        let answers = BufReader::new(answers);
        let session = String::new();
        let mut browser =
            Self { process, commands, answers, session, last: 0, events: Vec::new(), _profile: profile };
        let targets = browser.call("Target.getTargets", json!({}));
        let targets = targets["targetInfos"].as_array().unwrap();
        let page = targets.iter().find(|target| target["type"] == "page").unwrap()["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": page, "flatten": true}));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.tell(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// A command to the browser as a whole.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(json!({"method": method, "params": params}))
    }

    /// A command to the page.
    pub fn tell(&mut self, method: &str, params: Value) -> Value {
        let session = self.session.clone();
        self.send(json!({"method": method, "params": params, "sessionId": session}))
    }

    fn send(&mut self, mut command: Value) -> Value {
        self.last += 1;
        command["id"] = self.last.into();
        let mut bytes = serde_json::to_vec(&command).unwrap();
        bytes.push(0);
        self.commands.as_mut().unwrap().write_all(&bytes).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.answers.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser ended before it answered {command}");
            let mut answer: Value = serde_json::from_slice(&bytes).unwrap();
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{command}: {}", answer["error"]);
                return answer["result"].take();
            }
            self.events.push(answer);
        }
    }

    /// Opens a report and waits until the page shows it or says that it cannot.
    pub fn open(&mut self, file: &Path) {
        let shown = "document.body?.classList.contains('ready') || document.getElementById('failed')?.hidden === false";
        self.open_until(file, shown);
    }

    /// Opens a file and waits until an expression is true.
    pub fn open_until(&mut self, file: &Path, shown: &str) {
        self.events.clear();
        self.tell("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        self.until(shown);
    }

    /// The value of an expression.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.tell("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    /// The text of an element.
    pub fn text(&mut self, id: &str) -> String {
        self.value(&format!("document.getElementById('{id}').textContent")).as_str().unwrap().to_owned()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        crate::until(expression, || self.value(expression) == true);
    }

    /// Presses a key.
    pub fn key(&mut self, key: &str) {
        let text = if key == "Enter" { "\r" } else { key };
        let text = if text.chars().count() == 1 { text } else { "" };
        self.tell("Input.dispatchKeyEvent", json!({"type": "keyDown", "key": key, "text": text}));
        self.tell("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
    }

    /// Presses the mouse at a place of an element, in shares of its width and in pixels from its top, and releases it at another share.
    pub fn drag(&mut self, id: &str, from: f64, to: f64, down: f64) {
        let place = self.value(&format!(
            "(({{x, y, width}}) => [x, y, width])(document.getElementById('{id}').getBoundingClientRect())"
        ));
        let [x, y, width] = [0, 1, 2].map(|index| place[index].as_f64().unwrap());
        let mut mouse = |kind: &str, share: f64, button: &str| {
            let (x, y) = (x + width * share, y + down);
            let buttons = u32::from(button == "left");
            let params =
                json!({"type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1});
            self.tell("Input.dispatchMouseEvent", params);
        };
        mouse("mouseMoved", from, "none");
        mouse("mousePressed", from, "left");
        if from < to {
            mouse("mouseMoved", (from + to) / 2.0, "left");
            mouse("mouseMoved", to, "left");
        }
        mouse("mouseReleased", to, "left");
    }

    /// Types into the search field.
    pub fn search(&mut self, word: &str) {
        let word = json!(word);
        self.value(&format!(
            "{{const field = document.getElementById('search'); field.value = {word}; field.dispatchEvent(new Event('input'));}}"
        ));
    }

    /// CPU time of the page's process so far, in seconds.
    pub fn cpu_seconds(&mut self) -> f64 {
        let processes = self.call("SystemInfo.getProcessInfo", json!({}));
        let processes = processes["processInfo"].as_array().unwrap();
        let renderers = processes.iter().filter(|process| process["type"] == "renderer");
        renderers.map(|process| process["cpuTime"].as_f64().unwrap()).sum()
    }

    /// Errors of the page, and requests to anything but its file.
    pub fn complaints(&mut self) -> Vec<String> {
        self.value("1");
        let is_bad = |event: &&Value| match event["method"].as_str().unwrap_or("") {
            "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => true,
            "Network.requestWillBeSent" => event["params"]["type"] != "Document",
            _ => false,
        };
        self.events.iter().filter(is_bad).map(ToString::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends when the pipe is closed. Its processes write files until the last of them has ended.
        self.commands = None;
        let group = Pid::from_child(&self.process);
        crate::holds_within(PATIENCE, || self.process.try_wait().is_ok_and(|ended| ended.is_some()));
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.process.wait();
        crate::holds_within(PATIENCE, || test_kill_process_group(group).is_err());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_leaves_neither_files_nor_processes() {
        let Some(browser) = Browser::start() else { return };
        let (folder, group) = (browser._profile.path().to_owned(), Pid::from_child(&browser.process));
        assert!(test_kill_process_group(group).is_ok() && folder.exists());
        drop(browser);
        assert!(test_kill_process_group(group).is_err() && !folder.exists());
    }
}
