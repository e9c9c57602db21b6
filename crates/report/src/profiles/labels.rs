//! The labels of samples.

use profile::Label;
use recording::{Recording, Task};

/// The labels of a task in the order of output: process number, name, thread, added labels.
pub(super) fn of(recording: &Recording, task: &Task) -> Vec<Label> {
    let mut labels: Vec<Label> = task.pid.map(|pid| Label::num("pid", pid.into())).into_iter().collect();
    let of_process = recording.labels(task.labels);
    let (comm, added) = of_process.split_at(of_process.len().min(1));
    labels.extend_from_slice(comm);
    if let Some(thread) = &task.thread {
        labels.extend([Label::num("tid", thread.tid.into()), Label::str("thread", &thread.name)]);
    }
    labels.extend_from_slice(added);
    labels
}
