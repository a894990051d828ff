//! The verbs that are about hints: writes that are kept for nodes that are down.

use clap::Subcommand;

/// What can be done with hints.
#[derive(Debug, Subcommand)]
pub(super) enum HintVerb {
    /// Keep no hints for nodes that are down; those that are there stay
    #[command(after_help = "\
It holds until enablehandoff or the next start. What a node misses meanwhile only a repair brings.

Example:
  helenus nodetool disablehandoff")]
    Disablehandoff,

    /// Keep hints for nodes that are down again
    #[command(after_help = "\
Example:
  helenus nodetool enablehandoff")]
    Enablehandoff,

    /// Print for how long hints are kept for a node that is down
    #[command(after_help = "\
Example:
  helenus nodetool getmaxhintwindow")]
    Getmaxhintwindow,

    /// Print for which nodes this one has hints
    #[command(after_help = "\
The times are those at which the newest and the oldest file were begun, in UTC.

Example:
  helenus nodetool listpendinghints")]
    Listpendinghints,

    /// Deliver no hints
    #[command(after_help = "\
It holds until resumehandoff or the next start.

Example:
  helenus nodetool pausehandoff")]
    Pausehandoff,

    /// Deliver hints again
    #[command(after_help = "\
Example:
  helenus nodetool resumehandoff")]
    Resumehandoff,

    /// Set for how long hints are kept for a node that is down
    #[command(after_help = "\
It holds until the next start. Three hours are 10800000.

Example:
  helenus nodetool setmaxhintwindow 21600000")]
    Setmaxhintwindow {
        /// Milliseconds
        #[arg(value_name = "MAX_HINT_WINDOW")]
        value: u32,
    },

    /// Print whether hints are kept for nodes that are down
    #[command(after_help = "\
Example:
  helenus nodetool statushandoff")]
    Statushandoff,

    /// Remove the hints that this node has, of all nodes or of one
    #[command(after_help = "\
What they say only a repair brings then.

Examples:
  helenus nodetool truncatehints
  helenus nodetool truncatehints 10.0.0.7")]
    Truncatehints {
        /// The address or the name of a node
        endpoint: Option<String>,
    },
}
