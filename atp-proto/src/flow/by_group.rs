//! A table with one value for each group of a job, indexed by the group's id.

/// One value per group.
pub struct ByGroup<T> {
    values: Vec<(u8, T)>,
    /// By group id: the index of its value plus one; 0 if the job has no such group.
    positions: Box<[u16; 256]>,
}

impl<T> ByGroup<T> {
    /// A table of these values.
    pub fn new(values: impl IntoIterator<Item = (u8, T)>) -> Self {
        let values: Vec<_> = values.into_iter().collect();
        let mut positions = Box::new([0; 256]);
        for (position, (group, _)) in (1..).zip(&values) {
            positions[usize::from(*group)] = position;
        }
        Self { values, positions }
    }

    /// The value of a group.
    pub fn get(&self, group: u8) -> Option<&T> {
        let position = self.positions[usize::from(group)].checked_sub(1)?;
        self.values.get(usize::from(position)).map(|(_, value)| value)
    }

    /// The value of a group.
    pub fn get_mut(&mut self, group: u8) -> Option<&mut T> {
        let position = self.positions[usize::from(group)].checked_sub(1)?;
        self.values.get_mut(usize::from(position)).map(|(_, value)| value)
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.values.len()
    }

    /// All groups and their values.
    pub fn iter(&self) -> impl Iterator<Item = &(u8, T)> {
        self.values.iter()
    }

    /// All groups and their values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut (u8, T)> {
        self.values.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn get__returns_each_groups_value() {
        let mut names = ByGroup::new([(7, "seven"), (0, "none"), (255, "last")]);
        assert_eq!(
            (names.get(7), names.get(255), names.get(1)),
            (Some(&"seven"), Some(&"last"), None)
        );
        *names.get_mut(0).unwrap() = "zero";
        assert_eq!((names.get(0), names.groups()), (Some(&"zero"), 3));
    }
}
