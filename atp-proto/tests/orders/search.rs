//! Runs a job through orders of events: all of them, or one drawn at random.

use crate::{
    job::Job,
    world::{Action, World},
};
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

/// Runs a stream in order to window `from`. Then at most `steps` events follow in a random order,
/// with some of the old packets. After that nothing is lost, and the job has to end.
pub fn random_order_from(job: &Job, rng: &mut ChaCha8Rng, from: u32, steps: usize) {
    /// No network delays a packet by 64 windows.
    const AGE_MAX: u32 = 60;
    let mut world = World::new(job);
    let check = |world: &World, result: Result<(), String>| {
        if let Err(fault) = result {
            panic!("{fault}\nfrom window {from}, after {:#?}\njob {job:?}", world.done());
        }
    };
    let result = world.go_on(Some(from));
    check(&world, result);
    world.lose(|age| age < 2 || age <= AGE_MAX && rng.random_bool(0.1));
    for _ in 0..steps {
        let actions = world.actions();
        let Some(action) = actions.get(rng.random_range(0..actions.len().max(1))) else { break };
        let result = world.act(action);
        check(&world, result);
    }
    let result = world.go_on(None);
    check(&world, result);
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
