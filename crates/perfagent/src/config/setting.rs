//! One setting of a request: given or not, once or twice, readable or not.

/// One setting of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Setting<T> {
    /// Not given: the default applies.
    #[default]
    Unset,
    /// Given.
    Value(T),
    /// Given as a text that is not a valid value.
    Unreadable(String),
    /// Given twice, with different values.
    Contradiction,
}

impl<T: PartialEq> Setting<T> {
    /// Sets the value. A second, different value is a contradiction; the same value again is not.
    pub(super) fn set(&mut self, new: Self) {
        *self = match std::mem::take(self) {
            Self::Unset => new,
            old if old == new => old,
            _ => Self::Contradiction,
        };
    }

    pub(super) fn is_given(&self) -> bool {
        !matches!(self, Self::Unset)
    }

    pub(super) fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn is_contradiction(&self) -> bool {
        matches!(self, Self::Contradiction)
    }
}

impl Setting<bool> {
    pub(super) fn is_on(&self) -> bool {
        self.value() == Some(&true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_different_value_is_a_contradiction() {
        let mut setting = Setting::Unset;
        setting.set(Setting::Value(1));
        setting.set(Setting::Value(1));
        assert_eq!(setting.value(), Some(&1));
        setting.set(Setting::Value(2));
        assert!(setting.is_contradiction());
        setting.set(Setting::Value(2));
        assert!(setting.is_contradiction());
    }
}
