//! From tables and sums to a recording.

use std::collections::HashMap;

use crate::builder::context::{Context, Renumbering};
use crate::builder::linked::Place;
use crate::builder::singles::fit_values;
use crate::builder::table::{Item, Room, Table};
use crate::builder::tables::Tables;
use crate::count::{Count, Link, Object, TaskStackId};
use crate::event::EventId;
use crate::model::Recording;
use crate::module::{CodeMappingId, ModuleId};
use crate::single::Singles;
use crate::task::ExecInstanceId;
use crate::values::Values;

/// The recording of an interval. `context.main` gets a number of its own if no stack goes through it.
pub(super) fn recording(
    mut tables: Tables,
    sums: &HashMap<Place, Values>,
    singles: Option<Singles>,
    context: Context,
) -> Recording {
    let Context { settings, span, origin, kernel, main, events, accounting, .. } = context;
    // One more item than there is room for.
    let mut room = Room::of_bytes(usize::MAX);
    let main = main.and_then(|(module, mut mapping)| {
        mapping.module = ModuleId(tables.modules.number(module, &mut room)?);
        tables.mappings.number(mapping, &mut room).map(CodeMappingId)
    });
    let schema = |event: EventId| events.get(event.0 as usize).map_or(0, |event| event.values.len());
    let mut counts: Vec<Count> = sums
        .iter()
        .map(|(place, values)| {
            let Place { event, stack, links, object, time_bin } = place.clone();
            let mut values = values.0.to_vec();
            values.truncate(schema(event));
            Count { event, stack, links, object, time_bin, values }
        })
        .collect();
    counts.sort_by(|one, other| order(one).cmp(&order(other)));
    let mut recording = Recording {
        settings,
        span,
        origin,
        kernel,
        main,
        modules: tables.modules.into_items(),
        mappings: tables.mappings.into_items(),
        exec_instances: tables.exec_instances.into_items(),
        code_objects: tables.code_objects.into_items(),
        frames: tables.frames.into_items(),
        stacks: tables.stacks.into_items(),
        label_sets: tables.label_sets.into_items(),
        tasks: tables.tasks.into_items(),
        task_stacks: tables.task_stacks.into_items(),
        events,
        counts,
        singles,
        accounting,
    };
    fit_values(&mut recording);
    recording
}

/// The order of counts.
fn order(count: &Count) -> (TaskStackId, &[Link], EventId, Option<Object>, Option<u32>) {
    (count.stack, &count.links, count.event, count.object, count.time_bin)
}

/// What of `old` is in `new` too. The tables of the next interval are small: they hold what is in use at the cut.
pub(super) fn renumbering(old: &Tables, new: &Tables) -> Renumbering {
    Renumbering {
        modules: common(&old.modules, &new.modules)
            .map(|(old, new)| (ModuleId(old), ModuleId(new)))
            .collect(),
        exec_instances: common(&old.exec_instances, &new.exec_instances)
            .map(|(old, new)| (ExecInstanceId(old), ExecInstanceId(new)))
            .collect(),
    }
}

fn common<T: Item>(old: &Table<T>, new: &Table<T>) -> impl Iterator<Item = (u32, u32)> {
    new.iter().enumerate().filter_map(|(number, item)| Some((old.find(item)?, number as u32)))
}
