//! Bytes to message to model.

use std::collections::HashMap;
use std::io::{self, Read as _};

use flate2::bufread::MultiGzDecoder;
use profile::{
    BuildId, FileOffset, Function, FunctionId, Label, LabelValue, Line, Location, LocationId, Mapping,
    MappingId, Profile, Sample, Svma, ValueType,
};
use prost::Message as _;

use super::memory::{malformed_at, memory_of};
use super::proto;

/// The longest uncompressed message that [`decode`] takes.
pub const MAX_MESSAGE_BYTES: u64 = 256 << 20;

/// Why bytes are not a pprof profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The gzip stream is damaged.
    #[error("decompress the pprof file at offset {at}: {source}")]
    #[non_exhaustive]
    Gzip {
        /// Bytes of the file before the damage, or before its end if it was cut off.
        at: u64,
        /// What is wrong.
        source: io::Error,
    },
    /// The tables of the message would take too much memory.
    #[error("the pprof message has more items than {MAX_MEMORY} bytes of memory can hold")]
    TooManyItems,
    /// The message is longer than [`MAX_MESSAGE_BYTES`].
    #[error("the pprof message is longer than {MAX_MESSAGE_BYTES} bytes uncompressed")]
    TooLong,
    /// The bytes are not a `profile.proto` message.
    #[error("decode the pprof message at offset {at}: {source}")]
    #[non_exhaustive]
    Protobuf {
        /// Where the first malformed item of the uncompressed message begins.
        at: usize,
        /// What is wrong.
        source: prost::DecodeError,
    },
    /// A reference names a missing entry.
    #[error("the pprof message refers to {kind} {id}, which it does not contain")]
    Reference {
        /// The kind of the missing entry.
        kind: &'static str,
        /// The id or index.
        id: i128,
    },
    /// An id is 0 or appears twice.
    #[error("the pprof message has {kind} id {id} twice, or it is 0")]
    Id {
        /// The kind of the entry.
        kind: &'static str,
        /// The id.
        id: u64,
    },
    /// A line number or column is negative or longer than 32 bits, or a table is too long.
    #[error("{field} of the pprof message is {value}, which is not in 0..2^32")]
    Range {
        /// The field.
        field: &'static str,
        /// Its value.
        value: i64,
    },
    /// A sample has more or fewer values than the profile has sample types.
    #[error("a sample of the pprof message has {found} values; there are {expected} sample types")]
    Values {
        /// Values in the sample.
        found: usize,
        /// Sample types of the profile.
        expected: usize,
    },
}

/// Memory of the tables of a message, about.
const MAX_MEMORY: u64 = 1 << 30;

/// Reads a profile, gzip-compressed or plain. Leaves out what the model does not contain: `drop_frames`, `keep_frames`,
/// units of labels, build-ids that are not hex, and the `has_*` flags.
///
/// # Errors
/// [`DecodeError`] if the bytes are damaged, too long or refer to a missing entry.
pub fn decode(bytes: &[u8]) -> Result<Profile, DecodeError> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut message = Vec::new();
        let mut decoder = MultiGzDecoder::new(bytes).take(MAX_MESSAGE_BYTES + 1);
        if let Err(source) = decoder.read_to_end(&mut message) {
            let rest = decoder.into_inner().into_inner().len();
            return Err(DecodeError::Gzip { at: (bytes.len() - rest) as u64, source });
        }
        decode_plain(&message)
    } else {
        decode_plain(bytes)
    }
}

fn decode_plain(message: &[u8]) -> Result<Profile, DecodeError> {
    if message.len() as u64 > MAX_MESSAGE_BYTES {
        return Err(DecodeError::TooLong);
    }
    if memory_of(message) > MAX_MEMORY {
        return Err(DecodeError::TooManyItems);
    }
    let decoded = proto::Profile::decode(message);
    let at_offset = |source| DecodeError::Protobuf { at: malformed_at(message), source };
    Reader::new(decoded.map_err(at_offset)?)?.profile()
}

/// Position in a table by id; ids may come in any order.
struct Ids {
    kind: &'static str,
    index: HashMap<u64, u32>,
}

impl Ids {
    fn new(kind: &'static str, ids: impl Iterator<Item = u64>) -> Result<Self, DecodeError> {
        let mut index = HashMap::new();
        for (position, id) in (0u32..).zip(ids) {
            if id == 0 || index.insert(id, position).is_some() {
                return Err(DecodeError::Id { kind, id });
            }
        }
        Ok(Self { kind, index })
    }

    fn get(&self, id: u64) -> Result<u32, DecodeError> {
        self.index.get(&id).copied().ok_or(DecodeError::Reference { kind: self.kind, id: id.into() })
    }
}

struct Reader {
    message: proto::Profile,
    mappings: Ids,
    locations: Ids,
    functions: Ids,
}

fn narrow(field: &'static str, value: i64) -> Result<u32, DecodeError> {
    u32::try_from(value).map_err(|_| DecodeError::Range { field, value })
}

impl Reader {
    fn new(message: proto::Profile) -> Result<Self, DecodeError> {
        Ok(Self {
            mappings: Ids::new("mapping", message.mapping.iter().map(|m| m.id))?,
            locations: Ids::new("location", message.location.iter().map(|l| l.id))?,
            functions: Ids::new("function", message.function.iter().map(|f| f.id))?,
            message,
        })
    }

    fn text(&self, index: i64) -> Result<&str, DecodeError> {
        if index == 0 {
            return Ok("");
        }
        usize::try_from(index)
            .ok()
            .and_then(|index| self.message.string_table.get(index))
            .map(String::as_str)
            .ok_or(DecodeError::Reference { kind: "string", id: index.into() })
    }

    fn value_type(&self, value_type: &proto::ValueType) -> Result<ValueType, DecodeError> {
        Ok(ValueType::new(self.text(value_type.kind)?, self.text(value_type.unit)?))
    }

    fn mapping(&self, mapping: &proto::Mapping) -> Result<Mapping, DecodeError> {
        Ok(Mapping {
            start: Svma(mapping.memory_start),
            limit: Svma(mapping.memory_limit),
            file_offset: FileOffset(mapping.file_offset),
            filename: self.text(mapping.filename)?.to_owned(),
            build_id: self.text(mapping.build_id)?.parse::<BuildId>().ok(),
        })
    }

    fn function(&self, function: &proto::Function) -> Result<Function, DecodeError> {
        Ok(Function {
            name: self.text(function.name)?.to_owned(),
            system_name: self.text(function.system_name)?.to_owned(),
            filename: self.text(function.filename)?.to_owned(),
            start_line: narrow("a function's start line", function.start_line)?,
        })
    }

    fn location(&self, location: &proto::Location) -> Result<Location, DecodeError> {
        let mapping = match location.mapping_id {
            0 => None,
            id => Some(MappingId(self.mappings.get(id)?)),
        };
        let line = |line: &proto::Line| {
            Ok(Line {
                function: FunctionId(self.functions.get(line.function_id)?),
                line: narrow("a line", line.line)?,
                column: narrow("a column", line.column)?,
            })
        };
        let lines = location.line.iter().map(line).collect::<Result<_, DecodeError>>()?;
        Ok(Location { mapping, address: location.address, lines })
    }

    fn sample(&self, sample: &proto::Sample) -> Result<Sample, DecodeError> {
        let (found, expected) = (sample.value.len(), self.message.sample_type.len());
        if found != expected {
            return Err(DecodeError::Values { found, expected });
        }
        let label = |label: &proto::Label| {
            // A text label with the empty string has the same bytes as the number 0.
            let value = match self.text(label.str)? {
                "" => LabelValue::Num(label.num),
                text => LabelValue::Str(text.to_owned()),
            };
            Ok(Label { key: self.text(label.key)?.to_owned(), value })
        };
        Ok(Sample {
            locations: sample
                .location_id
                .iter()
                .map(|id| self.locations.get(*id).map(LocationId))
                .collect::<Result<_, _>>()?,
            values: sample.value.clone(),
            labels: sample.label.iter().map(label).collect::<Result<_, DecodeError>>()?,
        })
    }

    fn profile(&self) -> Result<Profile, DecodeError> {
        let m = &self.message;
        Ok(Profile {
            sample_types: m.sample_type.iter().map(|t| self.value_type(t)).collect::<Result<_, _>>()?,
            default_sample_type: self.text(m.default_sample_type)?.to_owned(),
            period_type: m.period_type.as_ref().map(|t| self.value_type(t)).transpose()?.unwrap_or_default(),
            period: m.period,
            time_ns: m.time_nanos,
            duration_ns: m.duration_nanos,
            comments: m.comment.iter().map(|c| self.text(*c).map(str::to_owned)).collect::<Result<_, _>>()?,
            mappings: m.mapping.iter().map(|m| self.mapping(m)).collect::<Result<_, _>>()?,
            functions: m.function.iter().map(|f| self.function(f)).collect::<Result<_, _>>()?,
            locations: m.location.iter().map(|l| self.location(l)).collect::<Result<_, _>>()?,
            samples: m.sample.iter().map(|s| self.sample(s)).collect::<Result<_, _>>()?,
            moments: Vec::new(),
        })
    }
}
