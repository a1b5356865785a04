//! The modules of the running kernel, as listed by its package.

use std::fs;

/// Whether the running kernel has the module `name` (`sch_fq`), loadable or built in. `false` also
/// if the lists are missing.
pub fn has(name: &str) -> bool {
    let Ok(release) = fs::read_to_string("/proc/sys/kernel/osrelease") else { return false };
    let folder = format!("/lib/modules/{}", release.trim());
    ["modules.dep", "modules.builtin"].iter().any(|list| {
        fs::read_to_string(format!("{folder}/{list}")).is_ok_and(|list| lists(&list, name))
    })
}

/// Whether a line begins with the path of this module's file: `kernel/net/sched/sch_fq.ko.xz: ...`.
fn lists(list: &str, name: &str) -> bool {
    list.lines().any(|line| {
        let path = line.split(':').next().unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or_default();
        file.split_once(".ko").is_some_and(|(module, _)| module == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists__loadable_built_in_and_neither() {
        let dep =
            "kernel/net/sched/sch_fq_codel.ko.xz:\nkernel/net/sched/sch_fq.ko.xz: kernel/a.ko\n";
        let builtin = "kernel/net/sched/sch_htb.ko\n";
        assert!(lists(dep, "sch_fq") && lists(builtin, "sch_htb"));
        assert!(!lists(dep, "sch_htb") && !lists(builtin, "sch_fq") && !lists(dep, "a"));
    }
}
