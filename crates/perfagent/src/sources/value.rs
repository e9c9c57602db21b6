//! Where the programs read the value of an event: the plans for fields of tracepoints and for arguments of probes.

use events::monitor::{ArgumentFrom, ArgumentPlace, Field, Format};
use kernel::{MAX_VALUE_STEPS, ProbeRegister, ValueFrom, ValuePlan};

/// Bytes at the begin of the record of a tracepoint that the kernel overwrites for programs.
const OVERWRITTEN: usize = 8;

/// The plan for a field of a tracepoint.
///
/// # Errors
/// Why it cannot be summed up.
pub(super) fn of_field(format: &Format, name: &str) -> Result<ValuePlan, String> {
    let named = |field: &&Field| field.name == name;
    let Some(field) = format.fields.iter().find(named) else {
        let numbers: Vec<&str> = format
            .fields
            .iter()
            .filter(|field| can_be_read(field))
            .map(|field| field.name.as_str())
            .collect();
        return Err(format!("there is no field {name}; its numbers are {}", numbers.join(", ")));
    };
    if !can_be_read(field) {
        let kind = if field.common { "is the kernel's own field" } else { "is no number" };
        return Err(format!("{name} {kind} ({})", field.type_text));
    }
    let unfit = |_| format!("{name} is too far from the begin of the record");
    let at = u32::try_from(field.offset).map_err(unfit)?;
    Ok(ValuePlan::integer(ValueFrom::Record(at), field.size as u8, field.signed))
}

fn can_be_read(field: &Field) -> bool {
    !field.common && field.offset >= OVERWRITTEN && field.is_number()
}

/// The plan for an argument of a probe.
///
/// # Errors
/// Why it cannot be summed up.
pub(super) fn of_argument(place: ArgumentPlace) -> Result<ValuePlan, String> {
    let ArgumentPlace { from, offsets, in_kernel, size, bits, signed } = place;
    if offsets.len() > MAX_VALUE_STEPS {
        return Err(format!("it is behind {} loads; at most {MAX_VALUE_STEPS} can be made", offsets.len()));
    }
    let register = match from {
        ArgumentFrom::Constant(number) => {
            return Ok(ValuePlan { from: ValueFrom::Constant(number), size, bits, signed });
        }
        ArgumentFrom::Result => ProbeRegister::result(),
        ArgumentFrom::Register(name) => {
            ProbeRegister::named(&name).ok_or_else(|| format!("there is no register %{name}"))?
        }
    };
    Ok(ValuePlan { from: ValueFrom::Register { register, offsets, in_kernel }, size, bits, signed })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: block_rq_issue\nID: 1\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned int bytes;\toffset:28;\tsize:4;\tsigned:0;\n\
        \tfield:long ret;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:char rwbs[8];\toffset:40;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"\"\n";

    #[test]
    fn numbers_of_a_tracepoint_are_read_and_nothing_else() {
        let format = Format::parse(FORMAT).unwrap();
        let plan = |name| of_field(&format, name);
        assert_eq!(plan("bytes"), Ok(ValuePlan::integer(ValueFrom::Record(28), 4, false)));
        assert_eq!(plan("ret"), Ok(ValuePlan::integer(ValueFrom::Record(32), 8, true)));
        assert!(plan("rwbs").unwrap_err().contains("is no number (char[8])"));
        assert!(plan("common_pid").unwrap_err().contains("the kernel's own"));
        let unknown = plan("size").unwrap_err();
        assert!(unknown.ends_with("its numbers are dev, bytes, ret"), "{unknown}");
    }

    #[test]
    fn an_argument_behind_too_many_loads_is_refused() {
        let place = |loads: usize, register: &str| ArgumentPlace {
            from: ArgumentFrom::Register(register.to_owned()),
            offsets: vec![8; loads],
            in_kernel: false,
            size: 4,
            bits: (0, 32),
            signed: true,
        };
        let register = if cfg!(target_arch = "x86_64") { "di" } else { "x0" };
        assert!(of_argument(place(MAX_VALUE_STEPS, register)).is_ok());
        assert!(of_argument(place(MAX_VALUE_STEPS + 1, register)).unwrap_err().contains("5 loads"));
        assert!(of_argument(place(0, "none")).unwrap_err().contains("%none"));
    }
}
