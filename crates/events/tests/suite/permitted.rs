//! Opens what needs rights, or skips the test.

/// The result, where root and tracefs are to be had.
macro_rules! permitted {
    ($result:expr) => {
        match $result {
            Err(error) if error.is_permission() || matches!(error, MonitorError::Tracefs { .. }) => {
                testkit::skip!("{error}")
            }
            result => result.unwrap(),
        }
    };
}

/// The same, where probes are to be had too.
macro_rules! permitted_probe {
    ($result:expr) => {
        match $result {
            Err(error)
                if error.is_permission()
                    || matches!(error, MonitorError::Tracefs { .. } | MonitorError::NoProbes { .. }) =>
            {
                testkit::skip!("{error}")
            }
            result => result.unwrap(),
        }
    };
}

pub(crate) use {permitted, permitted_probe};
