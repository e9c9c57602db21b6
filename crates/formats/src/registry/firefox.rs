//! JSON for the Firefox Profiler: its processed profile, written by the crate of the profiler's own authors.
//!
//! One process for each `pid` of the labels and one thread for each `tid`; without `tid`, the process has one. Frames have their kind as category; inlined
//! functions are frames of their own. The samples of a profile have no times: they stand one after the other, each as long as its value,
//! so that the timeline shows shares and not moments. Weights of the format are whole numbers: time is in milliseconds, and what is left of a
//! stack is carried to the next one of its thread, so that the sum of a thread is right to one millisecond.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use fxprof_processed_profile as fx;
use indexmap::IndexMap;
use profile::{LabelValue, Profile, Sample};

use crate::named_frames::{FrameKind, NamedFrames};
use crate::registry::folded::check_value;
use crate::{EncodeOptions, Encoder, Merge};

/// The format of the Firefox Profiler.
pub struct Firefox;

impl Encoder for Firefox {
    fn name(&self) -> &'static str {
        "firefox"
    }

    fn extensions(&self) -> &[&'static str] {
        &["firefox.json"]
    }

    fn encode(&self, profile: &Profile, options: &EncodeOptions, out: &mut dyn Write) -> io::Result<()> {
        let value = options.value_index(profile);
        check_value(profile, value)?;
        let mut file = File::new(profile, options, value);
        profile.samples.iter().try_for_each(|sample| file.add(sample, value))?;
        serde_json::to_writer(&mut *out, &file.out)?;
        out.write_all(b"\n")
    }
}

/// What a weight counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    Samples,
    /// The value has nanoseconds.
    Milliseconds,
    Bytes,
}

/// Samples for one stack: a weight has 31 bits.
const MAX_PARTS: u64 = 4096;
const NS_PER_MS: u64 = 1_000_000;

impl Weight {
    fn of(unit: &str) -> Self {
        match unit {
            "nanoseconds" => Self::Milliseconds,
            "bytes" => Self::Bytes,
            _ => Self::Samples,
        }
    }

    fn kind(self) -> fx::WeightType {
        match self {
            Self::Samples => fx::WeightType::Samples,
            Self::Milliseconds => fx::WeightType::TracingMs,
            Self::Bytes => fx::WeightType::Bytes,
        }
    }
}

/// A thread of the file.
struct Thread {
    handle: fx::ThreadHandle,
    /// Where its next sample stands.
    ns: u64,
    /// Nanoseconds that were not shown yet.
    rest: u64,
}

struct File {
    named: NamedFrames,
    out: fx::Profile,
    categories: [fx::CategoryHandle; 7],
    processes: IndexMap<String, fx::ProcessHandle>,
    threads: IndexMap<(String, String), Thread>,
    weight: Weight,
    /// Time that one unit of the value takes on the timeline.
    step_ns: u64,
}

impl File {
    fn new(profile: &Profile, options: &EncodeOptions, value: usize) -> Self {
        let start =
            SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(profile.time_ns).unwrap_or(0));
        let weight = Weight::of(profile.sample_types.get(value).map_or("", |of| of.unit.as_str()));
        let is_time = profile.period_type.unit == "nanoseconds";
        let period = u64::try_from(profile.period).ok().filter(|ns| is_time && *ns >= 1000);
        let interval = period.unwrap_or(NS_PER_MS);
        let interval_of = fx::SamplingInterval::from_nanos(interval);
        let mut out = fx::Profile::new(&options.title, start.into(), interval_of);
        out.set_symbolicated(true);
        let categories = [
            (FrameKind::Owner, "Other", fx::CategoryColor::Gray),
            (FrameKind::Native, "Native", fx::CategoryColor::Orange),
            (FrameKind::Inlined, "Inlined", fx::CategoryColor::Yellow),
            (FrameKind::Interpreted, "Interpreted", fx::CategoryColor::Green),
            (FrameKind::Jit, "JIT", fx::CategoryColor::LightGreen),
            (FrameKind::Kernel, "Kernel", fx::CategoryColor::Purple),
            (FrameKind::Fact, "Not code", fx::CategoryColor::DarkGray),
        ]
        .map(|(kind, name, color)| match kind {
            FrameKind::Owner => fx::CategoryHandle::OTHER,
            _ => out.add_category(name, color),
        });
        let step_ns = if weight == Weight::Milliseconds { 1 } else { interval };
        Self {
            named: NamedFrames::new(profile, Merge::All),
            out,
            categories,
            processes: IndexMap::new(),
            threads: IndexMap::new(),
            weight,
            step_ns,
        }
    }

    fn category(&self, kind: FrameKind) -> fx::CategoryHandle {
        let [other, native, inlined, interpreted, jit, kernel, fact] = self.categories;
        match kind {
            FrameKind::Owner => other,
            FrameKind::Native => native,
            FrameKind::Inlined => inlined,
            FrameKind::Interpreted => interpreted,
            FrameKind::Jit => jit,
            FrameKind::Kernel => kernel,
            FrameKind::Fact => fact,
        }
    }

    /// The number of the thread of a sample.
    fn thread(&mut self, sample: &Sample) -> usize {
        let text = |key: &str| {
            let label = sample.labels.iter().find(|label| label.key == key);
            label.map_or_else(String::new, |label| match &label.value {
                LabelValue::Str(text) => text.clone(),
                LabelValue::Num(number) => number.to_string(),
            })
        };
        let (pid, tid) = (text("pid"), text("tid"));
        let key = (pid, tid);
        if let Some(known) = self.threads.get_index_of(&key) {
            return known;
        }
        let start = fx::Timestamp::from_nanos_since_reference(0);
        let number = |text: &str| text.parse().unwrap_or(0);
        let comm = Some(text("comm")).filter(|comm| !comm.is_empty()).unwrap_or_else(|| "all".to_owned());
        let out = &mut self.out;
        let of_pid = self.processes.entry(key.0.clone());
        let process = *of_pid.or_insert_with(|| out.add_process(&comm, number(&key.0), start));
        let tid = if key.1.is_empty() { &key.0 } else { &key.1 };
        let is_main = key.1.is_empty() || key.0 == key.1;
        let handle = self.out.add_thread(process, number(tid), start, is_main);
        let name = Some(text("thread")).filter(|name| !name.is_empty()).unwrap_or(comm);
        self.out.set_thread_name(handle, &name);
        self.out.set_thread_samples_weight_type(handle, self.weight.kind());
        self.threads.insert_full(key, Thread { handle, ns: 0, rest: 0 }).0
    }

    fn add(&mut self, sample: &Sample, value: usize) -> io::Result<()> {
        let weight = sample.values.get(value).copied().and_then(|weight| u64::try_from(weight).ok());
        let Some(mut weight) = weight.filter(|weight| *weight > 0) else { return Ok(()) };
        let number = self.thread(sample);
        let Some((_, Thread { handle, ns, rest })) = self.threads.get_index(number) else { return Ok(()) };
        let (thread, begin, rest) = (*handle, *ns, *rest);
        let end = begin.saturating_add(weight.saturating_mul(self.step_ns));
        let mut left = 0;
        if self.weight == Weight::Milliseconds {
            let ns = weight.saturating_add(rest);
            (weight, left) = (ns / NS_PER_MS, ns % NS_PER_MS);
        }
        if let Some((_, thread)) = self.threads.get_index_mut(number) {
            (thread.ns, thread.rest) = (end, left);
        }
        if weight / u64::from(i32::MAX.unsigned_abs()) > MAX_PARTS {
            let reason = "the value of a stack is larger than the format of the Firefox Profiler can hold";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let mut frames = Vec::new();
        for named in self.named.stack(sample) {
            let frame = fx::Frame::Label(self.out.intern_string(&named.name));
            let category_pair = self.category(named.kind).into();
            frames.push(fx::FrameInfo { frame, category_pair, flags: fx::FrameFlags::empty() });
        }
        let stack = self.out.intern_stack_frames(thread, frames.into_iter());
        let time = fx::Timestamp::from_nanos_since_reference(begin);
        while weight > 0 {
            let part = i32::try_from(weight).unwrap_or(i32::MAX);
            self.out.add_sample(thread, time, stack, fx::CpuDelta::ZERO, part);
            weight -= u64::from(part.unsigned_abs());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use profile::{Builder, Function, Label, Line, Mapping, ValueType};
    use serde_json::Value;

    use super::*;

    /// Two processes, of which one has two threads; values in `unit`.
    fn example(unit: &str, values: [i64; 4]) -> Profile {
        let of = ValueType::new("cpu", unit);
        let mut b = Builder::new(std::slice::from_ref(&of), of.clone(), 10_000_000);
        let app = b.mapping(Mapping { filename: "/bin/app".into(), ..Mapping::default() });
        let kernel = b.mapping(Mapping { filename: "[kernel.kallsyms]".into(), ..Mapping::default() });
        let line = |b: &mut Builder, name: &str| {
            let function = b.function(Function { name: name.into(), ..Function::default() });
            Line { function, line: 0, column: 0 }
        };
        let chain = vec![line(&mut b, "inner"), line(&mut b, "outer")];
        let chain = b.location(Some(app), 0x1234, chain);
        let read = vec![line(&mut b, "</script>sys_read")];
        let read = b.location(Some(kernel), 0x40, read);
        let fact = b.synthetic("[truncated: unreadable stack]");
        let labels = |pid, comm: &str, tid, thread: &str| {
            vec![
                Label::num("pid", pid),
                Label::str("comm", comm),
                Label::num("tid", tid),
                Label::str("thread", thread),
            ]
        };
        b.add(labels(7, "one", 7, "one"), vec![read, chain], &values[..1]);
        b.add(labels(7, "one", 7, "one"), vec![chain], &values[1..2]);
        b.add(labels(7, "one", 8, "worker"), vec![chain, fact], &values[2..3]);
        b.add(labels(9, "two", 9, "two"), vec![chain], &values[3..]);
        b.finish(1_700_000_000_000_000_000, 0, Vec::new())
    }

    fn encoded(profile: &Profile) -> Value {
        let mut out = Vec::new();
        let options = EncodeOptions { title: "On-CPU time".into(), ..EncodeOptions::default() };
        Firefox.encode(profile, &options, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    /// Name, process and sum of the weights of each thread.
    fn threads(file: &Value) -> Vec<(String, String, i64)> {
        let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
        let sum = |thread: &Value| {
            thread["samples"]["weight"].as_array().unwrap().iter().filter_map(Value::as_i64).sum()
        };
        let thread = |thread: &Value| (text(&thread["name"]), text(&thread["processName"]), sum(thread));
        file["threads"].as_array().unwrap().iter().map(thread).collect()
    }

    #[test]
    fn threads_have_their_samples_and_frames_their_kinds() {
        let file = encoded(&example("nanoseconds", [1_600_000, 1_600_000, 5_000_000, 900_000]));
        let named = |name: &str, process: &str, sum| (name.to_owned(), process.to_owned(), sum);
        // 3.2 ms of two stacks: what is left of one is carried to the next.
        assert_eq!(
            threads(&file),
            [named("one", "one", 3), named("worker", "one", 5), named("two", "two", 0)]
        );
        assert_eq!(file["meta"]["product"], "On-CPU time");
        assert_eq!(file["threads"][0]["samples"]["weightType"], "tracing-ms");
        let categories: Vec<_> = file["meta"]["categories"]
            .as_array()
            .unwrap()
            .iter()
            .map(|of| of["name"].as_str().unwrap())
            .collect();
        assert_eq!(categories, ["Other", "Native", "Inlined", "Interpreted", "JIT", "Kernel", "Not code"]);
        let kinds: Vec<_> = file["threads"][0]["stackTable"]["category"]
            .as_array()
            .or_else(|| file["threads"][0]["frameTable"]["category"].as_array())
            .unwrap()
            .iter()
            .map(|number| categories[number.as_u64().unwrap() as usize])
            .collect();
        assert_eq!(kinds, ["Native", "Inlined", "Kernel"]);
        let text = file.to_string();
        assert!(text.contains("</script>sys_read") && text.contains("outer"));
    }

    #[test]
    fn counts_and_bytes_are_weights_and_too_much_is_refused() {
        let file = encoded(&example("count", [3, 4, 5, 6]));
        let sums = |file: &Value| threads(file).into_iter().map(|(.., sum)| sum).collect::<Vec<_>>();
        assert_eq!(sums(&file), [7, 5, 6]);
        assert_eq!(file["threads"][0]["samples"]["weightType"], "samples");
        let file = encoded(&example("bytes", [5_000_000_000, 1, 2, 3]));
        assert_eq!(sums(&file), [5_000_000_001, 2, 3]);
        let refused = Firefox.encode(
            &example("bytes", [i64::MAX, 1, 2, 3]),
            &EncodeOptions::default(),
            &mut Vec::new(),
        );
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
