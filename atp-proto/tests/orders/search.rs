//! Runs a job through orders of events: all of them, or one drawn at random.

use crate::world::{Action, Job, World};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Runs every order of a job's events and returns their number. The state machines can't be copied,
/// so each order begins anew.
pub fn every_order(job: &Job) -> u64 {
    let (mut script, mut orders) = (Vec::new(), 0);
    loop {
        let mut world = World::new(job);
        let mut choices = Vec::new();
        for step in 0.. {
            let actions = world.actions();
            let Some(action) = actions.get(script.get(step).copied().unwrap_or(0)) else { break };
            choices.push((script.get(step).copied().unwrap_or(0), actions.len()));
            act(&mut world, job, action, &choices);
        }
        orders += 1;
        // The next order: the last choice that has another is changed.
        let last = choices.iter().rposition(|(chosen, number)| chosen + 1 < *number);
        let Some(last) = last else { return orders };
        script = choices[..=last].iter().map(|(chosen, _)| *chosen).collect();
        script[last] += 1;
    }
}

fn act(world: &mut World, job: &Job, action: &Action, choices: &[(usize, usize)]) {
    if let Err(fault) = world.act(action) {
        let script: Vec<_> = choices.iter().map(|(chosen, _)| *chosen).collect();
        panic!("{fault}\nafter {:#?}\njob {job:?}\nchoices {script:?}", world.done());
    }
}

/// Runs one order of at most `steps` events. Returns how many windows have ended at the sender.
pub fn random_order(job: &Job, rng: &mut ChaCha8Rng, steps: usize) -> u64 {
    let mut world = World::new(job);
    for _ in 0..steps {
        let actions = world.actions();
        if actions.is_empty() {
            break;
        }
        let action = &actions[rng.random_range(0..actions.len())];
        act(&mut world, job, action, &[]);
    }
    world.ends()
}
