//! The scenario over a small fleet.

use std::collections::BTreeSet;
use std::time::Duration;

use bench::record::{Cache, Scope, Setting};
use bench::scenario::Scenario;

use crate::{may_profile, out};

#[test]
fn each_binary_of_a_fleet_has_a_table_with_its_time() {
    if !may_profile() {
        return;
    }
    let setting = |cache| Setting {
        processes: 3,
        binaries: 5,
        scope: Scope::Fleet,
        all_tables: true,
        cache,
        label: String::new(),
    };
    for cache in [Cache::Empty, Cache::Warm] {
        let run = Scenario::prepare(setting(cache), &out()).unwrap().run(Duration::from_millis(300)).unwrap();
        let members = run.tables.iter().filter(|table| table.path.contains("/fleet/"));
        let members: BTreeSet<_> = members.map(|table| table.path.as_str()).collect();
        assert_eq!(members.len(), 5, "{run:?}");
        let compiled = run.tables.iter().filter(|table| !table.cached && table.path.contains("/fleet/"));
        assert_eq!(compiled.count(), if cache == Cache::Warm { 0 } else { 5 }, "{run:?}");
        assert!(run.tables.iter().all(|table| table.compile_ms > 0.0 && table.rows > 0), "{run:?}");
        assert!(run.start_ms > 0.0 && run.start_cpu_ms > 0.0, "{run:?}");
    }
}
