//! The tables that measurements print, one file each.

pub mod build;
pub mod churn;
pub mod cost;
pub mod endurance;
pub mod event_cost;
pub mod footprint;
pub mod go_profile;
pub mod heap;
pub mod latency;
pub mod offcpu;
pub mod python;
pub mod real;
mod reproduce;
pub mod scale;
pub mod scenario;
pub mod slowdown;
pub mod startup;
pub mod switches;
pub mod symbolize;
pub mod wrong;
