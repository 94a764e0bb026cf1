//! Label costs that are distances in a tree.

use super::{Compatibility, Cut};
use crate::error::{Error, Result};

impl Compatibility {
    /// Two labels cost the length of the path between them in a tree.
    ///
    /// An edge is a node, its parent and a length of 0 or more. Nodes have numbers of any size; labels are the nodes 0 to
    /// `labels - 1`, which have no children.
    pub fn tree(labels: usize, edges: &[(usize, usize, f32)]) -> Result<Self> {
        let bad = |why: String| Err(Error::parse("tree of labels", format!("{} edges", edges.len()), why));
        let parent = |node: usize| edges.iter().find(|edge| edge.0 == node).map(|edge| edge.1);
        for (k, &(node, above, length)) in edges.iter().enumerate() {
            if !(length.is_finite() && length >= 0.0) {
                return bad(format!("the edge from node {node} has length {length}; expected 0 or more"));
            }
            if edges[..k].iter().any(|edge| edge.0 == node) {
                return bad(format!("node {node} has two parents; expected one"));
            }
            if above < labels {
                return bad(format!("label {above} has node {node} below it; expected labels as leaves"));
            }
        }
        // The edges between every label and its root, and the roots.
        let (mut ways, mut roots) = (vec![Vec::new(); labels], Vec::new());
        for (label, way) in ways.iter_mut().enumerate() {
            let mut node = label;
            while let Some(k) = edges.iter().position(|edge| edge.0 == node) {
                if way.len() == edges.len() {
                    return bad(format!("the way up from label {label} leads in a circle; expected a tree"));
                }
                way.push(k);
                node = edges[k].1;
            }
            roots.push(node);
        }
        if let Some(label) = (0..labels).find(|&label| roots[label] != roots[0]) {
            return bad(match parent(label) {
                None => format!("label {label} is in no edge; expected a parent for every label"),
                Some(_) => format!("labels 0 and {label} have no node above them both; expected one tree"),
            });
        }
        // An edge separates the labels below it from all others.
        let cut = |(k, edge): (usize, &(usize, usize, f32))| Cut {
            inside: ways.iter().map(|way| way.contains(&k)).collect(),
            weight: edge.2,
        };
        Self::sum_of_cuts(labels, edges.iter().enumerate().map(cut).collect())
    }
}
