//! A drive that has changed bits of sstables while the node was off. Every read then gives what was
//! written, or an error that names a damaged file; never something else, and never a panic.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use io::Env;
use io::sim::{Crash, SimNode, Simulation};
use model::{PartitionSelection, Slice};
use storage::Store;

use super::client::{command, scan, shown};
use super::run::{LIMIT, config};
use super::tables;
use super::world::World;
use crate::Random;

/// At most so many bits change.
const BITS: u64 = 3;

/// What a life with damaged files found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Bits that changed.
    pub(crate) bits: u64,
    /// Errors that named a damaged file.
    pub(crate) errors: u64,
}

struct Life {
    world: Rc<World>,
    damaged: Vec<PathBuf>,
    seed: u64,
    errors: Cell<u64>,
}

/// Changes bits of a node that is off, starts it, reads everything, and ends it.
pub(crate) fn rot(
    simulation: &mut Simulation,
    node: SimNode,
    world: &Rc<World>,
    random: &mut Random,
) -> Result<Found, String> {
    let (mut damaged, mut bits) = (Vec::new(), 0);
    let mut files = simulation.files(node);
    files.retain(|(path, length)| path.starts_with("/data/data") && *length > 0);
    for _ in 0..1 + random.below(BITS) {
        if files.is_empty() {
            break;
        }
        let (path, length) = random.pick(&files).clone();
        let (offset, bit) = (random.below(length), random.below(8) as u32);
        let flipped = simulation.flip_bit(node, &path, offset, bit);
        flipped.map_err(|error| format!("no bit of {} changes: {error}", path.display()))?;
        // Snapshots and what was imported from them are links.
        let links = simulation.links(node, &path);
        damaged.extend(links.map_err(|error| error.to_string())?);
        bits += 1;
    }
    let life = Rc::new(Life {
        world: world.clone(),
        damaged,
        seed: random.next_u64(),
        errors: Cell::new(0),
    });
    let begun = life.clone();
    simulation.start(node, move |env| survey(env, begun.clone()));
    if !simulation.run_to_end(node, LIMIT) {
        return Err(format!(
            "damage to {:?}: reading does not end",
            life.damaged
        ));
    }
    simulation.crash(node, Crash::Process);
    match world.problem() {
        Some(problem) => Err(format!("damage to {:?}: {problem}", life.damaged)),
        None => Ok(Found {
            bits,
            errors: life.errors.get(),
        }),
    }
}

async fn survey(env: Env, life: Rc<Life>) {
    if let Err(problem) = read_all(&env, &life).await {
        life.world.fail(problem);
    }
}

async fn read_all(env: &Env, life: &Life) -> Result<(), String> {
    let world = &life.world;
    let schema = tables::schema(&world.tables());
    let store = match Store::open(
        env.clone(),
        config(env, &Default::default(), life.seed),
        &schema,
    )
    .await
    {
        Ok(store) => store,
        Err(error) => return life.expected(&error.to_string()),
    };
    if let Err(error) = store.replay().await {
        return life.expected(&error.to_string());
    }
    let now = env.wall_seconds();
    for key in world.keys_of(env) {
        for table in world.tables() {
            let observation = world.oracle.borrow_mut().observe(&key);
            let selection = PartitionSelection::Key(key.clone());
            let command = command(&table, selection, &Slice::ALL, false, now);
            let checked = match store.read(&command).await {
                Ok(page) => {
                    let shown = shown(page, false);
                    let mut oracle = world.oracle.borrow_mut();
                    let seen = (table.id, &command.columns[..]);
                    oracle.check(observation, seen, &Slice::ALL, now, &shown)
                }
                Err(error) => life.expected(&error.to_string()),
            };
            checked?;
        }
    }
    let mut random = Random::new(life.seed);
    for table in world.tables() {
        if let Err(problem) = scan(&store, &table, now, &mut random).await {
            life.expected(&problem)?;
        }
    }
    Ok(())
}

impl Life {
    /// An error is right if it names a file of an sstable that is damaged.
    fn expected(&self, error: &str) -> Result<(), String> {
        self.errors.set(self.errors.get() + 1);
        if self.damaged.iter().any(|path| names(error, path)) {
            return Ok(());
        }
        Err(format!("an error that names none of them: {error}"))
    }
}

/// Does an error speak of the sstable that a file belongs to?
fn names(error: &str, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let sstable = name.and_then(|name| name.rsplit_once('-'));
    sstable.is_some_and(|(sstable, _)| error.contains(sstable))
}
