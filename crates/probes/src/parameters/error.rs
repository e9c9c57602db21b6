//! Why a parameter cannot be read by its name.

/// Why a parameter cannot be read by its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// The text is no path.
    #[error("`{0}` is not NAME, NAME->MEMBER or NAME.MEMBER, with a type such as :x32 behind it or none")]
    Text(String),
    /// Neither the file nor a separate debug file has debug information.
    #[error(
        "there is no debug information; build with -g, install the debug package, or name the register, as in NAME=%di:u64"
    )]
    NoDebugInfo,
    /// The debug information lacks the function.
    #[error("the debug information does not describe the function")]
    NoFunction,
    /// The function has no such parameter.
    #[error("the function has no parameter {name}; it has {}", listed(known))]
    UnknownParameter {
        /// What was asked for.
        name: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// The structure has no such member.
    #[error("{of} has no member {member}; it has {}", listed(known))]
    UnknownMember {
        /// What was asked for.
        member: String,
        /// The structure.
        of: String,
        /// Some that it has.
        known: Vec<String>,
    },
    /// What stands before a member has none.
    #[error("what stands before {member} is {found}, no {wanted}")]
    NoMembers {
        /// The member.
        member: String,
        /// What is there.
        found: String,
        /// What would have the member.
        wanted: &'static str,
    },
    /// It is there, in a form that a probe cannot read.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// The debug information is damaged.
    #[error("the debug information is damaged: {0}")]
    Damaged(String),
}

impl ParameterError {
    pub(super) fn damaged(how: &str) -> Self {
        Self::Damaged(how.to_owned())
    }
}

impl From<gimli::Error> for ParameterError {
    fn from(error: gimli::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// Names in messages.
fn listed(names: &[String]) -> String {
    const MOST: usize = 12;
    match names.len() {
        0 => "none".to_owned(),
        number if number > MOST => format!("{}, …", names.get(..MOST).unwrap_or_default().join(", ")),
        _ => names.join(", "),
    }
}
