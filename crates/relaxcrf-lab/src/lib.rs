//! Experiments with relaxcrf, as the program runs them: from files to models, comparisons, tables and pages.
//!
//! The program adds arguments, commands and a display of progress. Nothing here prints or reads arguments.
//!
//! | what | where |
//! |---|---|
//! | files to models, with checks for likely mistakes | [`inputs`], [`disparity`], [`options`], [`choice`] |
//! | data directories, stored results | [`dataset`], [`journal`], [`outputs`], [`parallel`] |
//! | experiments | [`chains`], [`compare`], [`reproduce`], [`study`], [`tune`], [`learn`], [`evaluate`] |
//! | measures of labels, generated scenes | [`metrics`], [`synth`] |
//! | tables, plots, pages, JSON | [`report`] |
//! | warnings and progress | [`messages`], [`progress`] |

pub mod chains;
pub mod choice;
pub mod compare;
pub mod dataset;
pub mod disparity;
pub mod evaluate;
pub mod inputs;
pub mod journal;
pub mod learn;
pub mod messages;
pub mod methods;
pub mod metrics;
pub mod options;
pub mod outputs;
pub mod parallel;
pub mod progress;
pub mod report;
pub mod reproduce;
pub mod specs;
pub mod study;
pub mod synth;
pub mod tune;
