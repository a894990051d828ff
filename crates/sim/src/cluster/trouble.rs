//! What goes wrong around clusters: nodes die and come back, are cut off both ways or one way, the
//! network and drives are slow, clocks are wrong.

use std::time::Duration;

use io::sim::Crash;

use super::world::World;
use crate::Random;

/// How long nothing new happens.
const TURN: Duration = Duration::from_millis(200);
/// How wrong a clock may be, in milliseconds.
const WRONG: u64 = 4_000;

/// How often something went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Crashes.
    pub crashes: u64,
    /// Times that nodes were cut off.
    pub cuts: u64,
    /// Times that the network or a drive became slow.
    pub slow: u64,
    /// Times that a clock was set wrong.
    pub clocks: u64,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} crashes, {} cuts, {} times slow, {} wrong clocks",
            self.crashes, self.cuts, self.slow, self.clocks
        )
    }
}

impl Trouble {
    /// Adds what happened in another world.
    pub fn add(&mut self, other: &Trouble) {
        self.crashes += other.crashes;
        self.cuts += other.cuts;
        self.slow += other.slow;
        self.clocks += other.clocks;
    }

    /// Lets a little time pass; then something goes wrong, or is put right, or neither.
    ///
    /// # Errors
    /// A node does not start.
    pub fn make(&mut self, world: &mut World, random: &mut Random) -> Result<(), String> {
        self.make_but(world, random, true)
    }

    /// The same; nodes die only if they may.
    ///
    /// # Errors
    /// A node does not start.
    pub fn make_but(
        &mut self,
        world: &mut World,
        random: &mut Random,
        may_die: bool,
    ) -> Result<(), String> {
        world.simulation.run_for(TURN);
        for number in 0..world.len() {
            let ready = world.is_ready(number);
            ready.map_err(|error| format!("node {number} does not start: {error}"))?;
        }
        let any = |random: &mut Random| random.below(world.len() as u64) as usize;
        let victim = any(random);
        let others: Vec<usize> = (0..world.len()).collect();
        let down = others.iter().any(|number| !world.runs(*number));
        match random.below(24) {
            0 if may_die && world.runs(victim) && !down => {
                let how = match random.chance(50) {
                    true => Crash::Process,
                    false => Crash::Power,
                };
                world.crash(victim, how);
                self.crashes += 1;
            }
            1..=3 if !world.runs(victim) => world.start(victim),
            4 => {
                world.cut(&[victim], &others);
                if random.chance(60) {
                    world.cut(&others, &[victim]);
                }
                self.cuts += 1;
            }
            5 => {
                let other = any(random);
                world.cut(&[victim], &[other]);
                self.cuts += 1;
            }
            6 => {
                world.spoil_links();
                self.slow += 1;
            }
            7 => {
                world.slow_drive(victim);
                self.slow += 1;
            }
            8 => {
                let ahead = random.below(2 * WRONG) as i64 - WRONG as i64;
                world.set_clock(victim, ahead * 1000);
                self.clocks += 1;
            }
            9..=11 => world.heal(),
            _ => {}
        }
        Ok(())
    }
}

/// All is put right, and all nodes run and take clients, within `limit`.
///
/// # Errors
/// A node does not.
pub(super) fn end(world: &mut World, limit: Duration) -> Result<(), String> {
    world.heal();
    for number in 0..world.len() {
        if !world.runs(number) {
            world.start(number);
        }
    }
    world.wait_until_ready(limit)
}
