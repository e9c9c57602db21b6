//! A flag that ends symbolization early.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Condition = Arc<dyn Fn() -> bool + Send + Sync>;

/// Tells whether symbolization is abandoned. Clones share the flag.
#[derive(Clone, Default)]
pub struct AbandonToken {
    flag: Arc<AtomicBool>,
    condition: Option<Condition>,
}

impl AbandonToken {
    /// A token that is not abandoned yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A token that is also abandoned as soon as `condition` holds, as the flag of a host program. It is asked often.
    #[must_use]
    pub fn when(condition: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { flag: Arc::default(), condition: Some(Arc::new(condition)) }
    }

    /// Abandons, for good.
    pub fn abandon(&self) {
        self.flag.store(true, Ordering::Release);
    }

    /// Whether it was abandoned.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.flag.load(Ordering::Acquire) || self.condition.as_ref().is_some_and(|holds| holds())
    }
}

impl fmt::Debug for AbandonToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AbandonToken").field(&self.is_abandoned()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_follows_its_flag_and_the_flag_of_its_host() {
        let host = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&host);
        let token = AbandonToken::when(move || theirs.load(Ordering::Relaxed));
        let clone = token.clone();
        assert!(!clone.is_abandoned());
        host.store(true, Ordering::Relaxed);
        assert!(clone.is_abandoned());
        host.store(false, Ordering::Relaxed);
        token.abandon();
        assert!(clone.is_abandoned());
    }
}
