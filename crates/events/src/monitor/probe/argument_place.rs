//! Where an argument of a probe is, for programs that read it themselves: from the kernel's language to registers, loads and bits.
//!
//! In: numbers. Texts, arrays and variables of files are refused.

use super::arguments::split;
use super::probe_spec::Probe;
use super::sites::{NoSite, sites};
use super::usdt_argument::fetched;
use crate::monitor::error::MonitorError;

/// Where a number is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentPlace {
    /// Where to begin.
    pub from: ArgumentFrom,
    /// What is added to the word so far before each load, the first one first. Without any the number is where it begins.
    pub offsets: Vec<i64>,
    /// The loads are of memory of the kernel.
    pub in_kernel: bool,
    /// Bytes of the number in memory.
    pub size: u8,
    /// Its lowest bit in these bytes, and its bits.
    pub bits: (u8, u8),
    /// Whether it has a sign.
    pub signed: bool,
}

/// Where the way to a number begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentFrom {
    /// In the register with this name.
    Register(String),
    /// In the one with the result of a function.
    Result,
    /// At a number.
    Constant(i64),
}

impl ArgumentPlace {
    /// The place of the argument with this name of a probe, which is the same at all sites.
    ///
    /// # Errors
    /// [`MonitorError`]: there is no such place to probe or no such argument, or it is no number that a program can read.
    pub fn of(probe: &Probe, name: &str) -> Result<Self, MonitorError> {
        let refused = |reason: String| MonitorError::Probe {
            event: probe.name(),
            attempt: "read the arguments of",
            reason,
        };
        let found = sites(probe).map_err(|error| match error {
            NoSite::File(error) => MonitorError::from(error),
            NoSite::Refused(reason) => refused(reason),
        })?;
        let at_sites: Vec<Vec<String>> = match found {
            Some((_, sites))
                if sites.iter().any(|site| site.optimized_out.iter().any(|gone| gone == name)) =>
            {
                return Err(refused(format!(
                    "the program does not keep {name} where its function is called"
                )));
            }
            Some((_, sites)) => sites.into_iter().map(|site| site.arguments).collect(),
            None => vec![split(&probe.arguments).map_err(refused)?],
        };
        let of_site = |arguments: &Vec<String>| {
            let named = arguments.iter().find_map(|argument| argument.strip_prefix(name)?.strip_prefix('='));
            named.map(str::to_owned).ok_or_else(|| missing(name, arguments))
        };
        let mut texts = at_sites.iter().map(of_site).collect::<Result<Vec<_>, _>>().map_err(refused)?;
        texts.dedup();
        match texts.as_slice() {
            [text] => Self::parse(text, probe.is_of_kernel())
                .map_err(|reason| refused(format!("{name}: `{text}` {reason}"))),
            [] => Err(refused("it has no sites".to_owned())),
            _ => Err(refused(format!("{name} is at another place at each site: `{}`", texts.join("`, `")))),
        }
    }

    /// The places of the arguments of a USDT site, as its note has them (`8@%rdi -4@8(%rsp)`); `None` where a program cannot read one.
    #[must_use]
    pub fn of_usdt_site(arguments: &str) -> Vec<Option<Self>> {
        // Where variables are depends on where the file is mapped.
        let texts = fetched(arguments, |_| None);
        texts.into_iter().map(|text| Self::parse(&text?, false).ok()).collect()
    }

    /// Reads `LOCATION:TYPE`.
    fn parse(text: &str, of_kernel: bool) -> Result<Self, String> {
        let (location, kind) = text.rsplit_once(':').unwrap_or((text, "x64"));
        let (size, bits, signed) =
            number_type(kind).ok_or("is no number: a sum takes s8 to s64, u8 to u64, or bits")?;
        let mut place = Self {
            from: ArgumentFrom::Result,
            offsets: Vec::new(),
            in_kernel: of_kernel,
            size,
            bits,
            signed,
        };
        place.locate(location)?;
        place.offsets.reverse();
        Ok(place)
    }

    /// Reads a location, from its outermost load to the register. The offsets come in the reverse order of the loads.
    fn locate(&mut self, mut location: &str) -> Result<(), String> {
        const UNKNOWN: &str = "is no register, $stackN, $retval, number, or load such as +8(%di)";
        let mut of_user = None;
        while location.starts_with(['+', '-']) {
            let (offset, inner) = location
                .split_once('(')
                .and_then(|(offset, rest)| Some((offset, rest.strip_suffix(')')?)))
                .ok_or(UNKNOWN)?;
            let (sign, digits) = offset.split_at(1);
            let (is_user, digits) = digits.strip_prefix('u').map_or((false, digits), |digits| (true, digits));
            if of_user.is_some_and(|before| before != is_user) {
                return Err("leads through memory of both the kernel and the program".to_owned());
            }
            of_user = Some(is_user);
            self.offsets.push(number(&format!("{}{digits}", sign.trim_start_matches('+'))).ok_or(UNKNOWN)?);
            location = inner;
        }
        self.in_kernel &= of_user != Some(true);
        self.from = if let Some(register) = location.strip_prefix('%') {
            ArgumentFrom::Register(register.to_owned())
        } else if location == "$retval" {
            ArgumentFrom::Result
        } else if let Some(word) = location.strip_prefix("$stack") {
            if !word.is_empty() {
                let word: u16 = word.parse().map_err(|_| UNKNOWN.to_owned())?;
                self.offsets.push(8 * i64::from(word));
            }
            ArgumentFrom::Register("sp".to_owned())
        } else if let Some(digits) = location.strip_prefix('\\') {
            ArgumentFrom::Constant(number(digits).ok_or(UNKNOWN)?)
        } else {
            return Err(UNKNOWN.to_owned());
        };
        match (&self.from, self.offsets.is_empty()) {
            (ArgumentFrom::Constant(_), false) => Err(UNKNOWN.to_owned()),
            _ => Ok(()),
        }
    }
}

fn missing(name: &str, arguments: &[String]) -> String {
    let names: Vec<&str> =
        arguments.iter().map(|argument| argument.split('=').next().unwrap_or_default()).collect();
    match names.is_empty() {
        true => format!("there is no argument {name}; name one, as in {name}=%di:u64"),
        false => format!("there is no argument {name}; there are {}", names.join(", ")),
    }
}

/// Bytes in memory, lowest bit and number of bits, and whether there is a sign.
fn number_type(kind: &str) -> Option<(u8, (u8, u8), bool)> {
    let digits = |text: &str| match text.parse() {
        Ok(bits @ (8 | 16 | 32 | 64)) => Some(bits),
        _ => None,
    };
    if let Some(field) = kind.strip_prefix('b') {
        // As in b3@5/32: three bits from the fifth on, in a word of 32.
        let (width, rest) = field.split_once('@')?;
        let (lowest, container) = rest.split_once('/')?;
        let (width, lowest, container): (u8, u8, u8) =
            (width.parse().ok()?, lowest.parse().ok()?, digits(container)?);
        let fits = width >= 1 && lowest.checked_add(width).is_some_and(|end| end <= container);
        return fits.then_some((container / 8, (lowest, width), false));
    }
    let (letter, rest) = kind.split_at_checked(1)?;
    let bits = digits(rest)?;
    matches!(letter, "s" | "u" | "x").then_some((bits / 8, (0, bits), letter == "s"))
}

fn number(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let number = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    let number: i64 = number.ok().filter(|number| *number >= 0)?;
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, of_kernel: bool) -> (ArgumentFrom, Vec<i64>, bool, u8, (u8, u8), bool) {
        let place = ArgumentPlace::parse(text, of_kernel).unwrap();
        (place.from, place.offsets, place.in_kernel, place.size, place.bits, place.signed)
    }

    #[test]
    fn locations_become_registers_and_loads() {
        let register = |name: &str| ArgumentFrom::Register(name.to_owned());
        assert_eq!(read("%di:s64", false), (register("di"), vec![], false, 8, (0, 64), true));
        assert_eq!(read("%si", false), (register("si"), vec![], false, 8, (0, 64), false));
        assert_eq!(read("$retval:s32", true), (ArgumentFrom::Result, vec![], true, 4, (0, 32), true));
        assert_eq!(read("$stack2:u32", false), (register("sp"), vec![16], false, 4, (0, 32), false));
        assert_eq!(
            read("+8(-0x10(%di)):x16", false),
            (register("di"), vec![-16, 8], false, 2, (0, 16), false)
        );
        assert_eq!(
            read("+0(+4($stack1)):u8", false),
            (register("sp"), vec![8, 4, 0], false, 1, (0, 8), false)
        );
        assert_eq!(read("+u8(%dx):u64", true), (register("dx"), vec![8], false, 8, (0, 64), false));
        assert_eq!(read("+8(%dx):u64", true), (register("dx"), vec![8], true, 8, (0, 64), false));
        assert_eq!(read("\\-3:s32", false), (ArgumentFrom::Constant(-3), vec![], false, 4, (0, 32), true));
        assert_eq!(read("+4(%di):b3@5/32", false), (register("di"), vec![4], false, 4, (5, 3), false));
    }

    #[test]
    fn arguments_of_usdt_sites_are_read_from_their_notes() {
        let places = ArgumentPlace::of_usdt_site("8@%rbx -4@8(%rsp) 8@$77 8@counter(%rip)");
        let register = |name: &str| ArgumentFrom::Register(name.to_owned());
        let [Some(first), Some(second), Some(third), None] = places.as_slice() else { panic!("{places:?}") };
        assert_eq!((&first.from, first.size, first.signed), (&register("bx"), 8, false));
        assert_eq!((&second.from, &*second.offsets, second.signed), (&register("sp"), &[8][..], true));
        assert_eq!(third.from, ArgumentFrom::Constant(77));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "+0(%si):string",
            "%di:s64[3]",
            "%di:ustring",
            "@0x10:u64",
            "@+0x10:u64",
            "$comm",
            "",
            "+8(%di",
            "+x(%di)",
            "%di:u7",
            "+0(\\3)",
            "%di:b9@0/8",
            "%di:b1@64/64",
            "%di:b1@255/64",
            "$stackx",
            "+8(+u8(%di))",
            "8(%di)",
        ] {
            assert!(ArgumentPlace::parse(text, true).is_err(), "{text}");
        }
    }

    #[test]
    fn an_argument_that_is_not_there_is_told_with_those_that_are() {
        let probe = Probe::kprobe("do_exit").args("a=%di b=%si:u32");
        assert_eq!(ArgumentPlace::of(&probe, "b").unwrap().size, 4);
        let error = ArgumentPlace::of(&probe, "c").unwrap_err().to_string();
        assert!(error.contains("no argument c; there are a, b"), "{error}");
        let error = ArgumentPlace::of(&Probe::kprobe("do_exit"), "c").unwrap_err().to_string();
        assert!(error.contains("c=%di:u64"), "{error}");
    }
}
