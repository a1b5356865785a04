//! Warns of rules that may not do what they seem to. Each can be meant so.

use super::{Policy, PolicyError, Rule, file};
use crate::daemon::cgroup_mount_point;
use nix::unistd::{Gid, Group, Uid, User};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};

/// The most members of groups to look up.
const MEMBERS_MAX: usize = 1_000;
/// The most names in a warning.
const NAMES_MAX: usize = 5;

/// A user that rules name, by itself or by its groups.
#[derive(Debug)]
struct Account {
    uid: u32,
    /// `None` if it wasn't looked up, or isn't known.
    name: Option<String>,
    /// The groups that it is in, of those that rules name.
    groups: BTreeSet<u32>,
}

impl Policy {
    /// Sentences about cgroups that don't exist, and about clients that an earlier rule names too,
    /// each with its line. Looks up members of groups, which can block.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.missing_cgroups();
        warnings.extend(self.overlaps(&self.accounts()));
        warnings
    }

    /// A sentence about a file that root alone can read.
    ///
    /// # Errors
    /// The file or its folders can't be looked at.
    pub fn warning_of_file(path: &Path) -> Result<Option<String>, PolicyError> {
        file::warning(path).map_err(|source| PolicyError::Unusable { path: path.into(), source })
    }

    fn missing_cgroups(&self) -> Vec<String> {
        let Ok(root) = cgroup_mount_point() else { return Vec::new() };
        let cgroups = self.rules.iter().flat_map(|rule| {
            rule.cgroups
                .iter()
                .map(|path| (rule.line, root.join(path.strip_prefix("/").unwrap_or(path))))
        });
        // One that this user can't look at may exist.
        let missing =
            cgroups.filter(|(_, path)| !path.join("cgroup.procs").try_exists().unwrap_or(true));
        missing
            .map(|(line, path)| {
                let path = path.display();
                format!(
                    "line {line}: the rule's cgroup {path} doesn't exist: create it, or correct its path"
                )
            })
            .collect()
    }

    /// Sentences about rules that name a client of an earlier rule. A rule for a user before that
    /// of its group is no mistake.
    fn overlaps(&self, accounts: &[Account]) -> Vec<String> {
        // By the lines of the later and of the earlier rule.
        let mut named = BTreeMap::<(usize, usize), Vec<String>>::new();
        for (at, rule) in self.rules.iter().enumerate() {
            let earlier = || self.rules[..at].iter();
            let groups = rule.groups.iter().filter_map(|group| {
                let first = earlier().find(|first| first.groups.contains(group))?;
                Some((first, format!("group {group}")))
            });
            let cgroups = rule.cgroups.iter().filter_map(|path| {
                let holds =
                    |first: &&Rule| first.cgroups.iter().any(|above| path.starts_with(above));
                Some((earlier().find(holds)?, format!("cgroup {}", path.display())))
            });
            let users =
                accounts.iter().filter(|account| rule.holds_for(account)).filter_map(|account| {
                    let first = earlier().find(|first| first.holds_for(account))?;
                    let is_exception =
                        first.users.contains(&account.uid) && !rule.users.contains(&account.uid);
                    (!is_exception).then(|| (first, account.to_string()))
                });
            for (first, name) in groups.chain(cgroups).chain(users) {
                named.entry((rule.line, first.line)).or_default().push(name);
            }
        }
        let warning = |((line, first), names): ((usize, usize), Vec<String>)| {
            let names = list(&names);
            format!(
                "line {line}: the rule of line {first} already holds for {names}: put first the \
                 rule that shall hold"
            )
        };
        named.into_iter().map(warning).collect()
    }

    /// The users that rules name, and the members of groups if several rules could name one.
    fn accounts(&self) -> Vec<Account> {
        let uids: BTreeSet<u32> = self.rules.iter().flat_map(|rule| &rule.users).copied().collect();
        let gids: BTreeSet<u32> =
            self.rules.iter().flat_map(|rule| &rule.groups).copied().collect();
        let unknown = |uid| Account { uid, name: None, groups: BTreeSet::new() };
        let mut accounts: BTreeMap<u32, Account> =
            uids.into_iter().map(|uid| (uid, unknown(uid))).collect();
        if gids.is_empty() || self.rules.len() < 2 {
            return accounts.into_values().collect();
        }
        // Some hosts list no members of large groups, and a user's main group doesn't list it.
        let members: BTreeMap<u32, Vec<String>> = gids
            .iter()
            .filter_map(|gid| Some((*gid, Group::from_gid(Gid::from_raw(*gid)).ok()??.mem)))
            .collect();
        let names: BTreeSet<&String> = members.values().flatten().take(MEMBERS_MAX).collect();
        let by_uid = accounts.keys().map(|uid| User::from_uid(Uid::from_raw(*uid)));
        let by_name = names.into_iter().map(|name| User::from_name(name));
        let users: Vec<User> =
            by_uid.chain(by_name).filter_map(|user| user.ok().flatten()).collect();
        for user in users {
            let is_in = |gid: &u32| {
                user.gid.as_raw() == *gid
                    || members.get(gid).is_some_and(|names| names.contains(&user.name))
            };
            let groups = gids.iter().copied().filter(is_in).collect();
            let uid = user.uid.as_raw();
            accounts.insert(uid, Account { uid, name: Some(user.name), groups });
        }
        accounts.into_values().collect()
    }
}

impl Rule {
    fn holds_for(&self, account: &Account) -> bool {
        self.users.contains(&account.uid)
            || self.groups.iter().any(|group| account.groups.contains(group))
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {}", self.uid)?;
        self.name.iter().try_for_each(|name| write!(f, " ({name})"))
    }
}

/// The names in a sentence.
fn list(names: &[String]) -> String {
    let (shown, rest) = names.split_at(names.len().min(NAMES_MAX));
    let more = (!rest.is_empty()).then(|| format!("{} more", rest.len()));
    shown.iter().cloned().chain(more).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(uid: u32, groups: &[u32]) -> Account {
        Account { uid, name: Some(format!("u{uid}")), groups: groups.iter().copied().collect() }
    }

    /// The warnings about a policy with these rules, each in a line of its own from 2 on.
    fn overlaps(rules: &[&str], accounts: &[Account]) -> Vec<String> {
        let text = format!("others = {{}}\nrule = [\n{}\n]", rules.join(",\n"));
        Policy::parse(&text).unwrap().overlaps(accounts)
    }

    #[test]
    fn overlaps__users_groups_and_cgroups_in_two_rules() {
        let root = cgroup_mount_point().unwrap();
        let cgroup = |path: &str| format!("{{ cgroups = [\"{}/{path}\"] }}", root.display());
        let (user, a, b) = ("{ users = [1] }", "{ groups = [10] }", "{ groups = [11] }");
        let (above, below) = (cgroup("x"), cgroup("x/y"));
        let members = || [account(1, &[10, 11])];
        for (rules, expected) in [
            (&[user, user][..], Some("user 1 (u1)")),
            (&["{ users = [1, 2, 1] }", "{ users = [3] }"], None),
            (&[a, b], Some("user 1 (u1)")),
            (&[a, user], Some("user 1 (u1)")),
            // An exception from the rule of a group.
            (&[user, a], None),
            (&[user, a, b], None),
            (&["{ groups = [12] }", "{ groups = [12, 13] }"], Some("group 12")),
            (&[&above, &above], Some("cgroup /x")),
            (&[&above, &below], Some("cgroup /x/y")),
            (&[&below, &above], None),
            (&[user, &above], None),
        ] {
            let found = overlaps(rules, &members());
            let expected = expected.map(|who| {
                format!(
                    "line 4: the rule of line 3 already holds for {who}: put first the rule that \
                     shall hold"
                )
            });
            assert_eq!(found, Vec::from_iter(expected), "{rules:?}");
        }
    }

    #[test]
    fn overlaps__names_a_few_and_the_first_rule() {
        let members: Vec<_> = (1..=7).map(|uid| account(uid, &[10, 11])).collect();
        let found =
            overlaps(&["{ groups = [10] }", "{ groups = [11] }", "{ users = [1] }"], &members);
        assert!(found[0].contains("user 5 (u5), 2 more: put"), "{found:?}");
        assert!(found[1].starts_with("line 5: the rule of line 3 already"), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    /// From this host: root is in its main group, which doesn't list it.
    #[test]
    fn warnings__look_up_members() {
        let text = "[[rule]]\ngroups = [0]\n[[rule]]\nusers = [\"root\"]\n[others]\n";
        let found = Policy::parse(text).unwrap().warnings();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("line 3: the rule of line 1 already holds for user 0 (root)"));
    }

    #[test]
    fn warnings__a_cgroup_that_does_not_exist() {
        let root = cgroup_mount_point().unwrap();
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let text =
            format!("[[rule]]\ncgroups = [\"{0}/no-such-cgroup\"]\n[others]\n", root.display());
        let found = Policy::parse(&text).unwrap().warnings();
        assert!(found[0].ends_with("no-such-cgroup doesn't exist: create it, or correct its path"));
        let exists = root.join(own);
        if exists != root && exists.is_dir() {
            let text = format!("[[rule]]\ncgroups = [{exists:?}]\n[others]\n");
            assert_eq!(Policy::parse(&text).unwrap().warnings(), Vec::<String>::new());
        }
    }
}
