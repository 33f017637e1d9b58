//! A directed graph with kinds of edges, and its cycles.
//!
//! Thread safety: immutable after `new`. Nothing recurses: graphs have hundreds of thousands of
//! nodes. Invariant: `starts` has one entry more than there are nodes, and edges of a node lie
//! together.

use std::collections::VecDeque;

/// Why a node comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// It wrote the version before.
    Ww,
    /// It wrote what the other read.
    Wr,
    /// It read what the other replaced.
    Rw,
    /// It had ended.
    Time,
}

impl Edge {
    pub fn name(self) -> &'static str {
        match self {
            Edge::Ww => "ww",
            Edge::Wr => "wr",
            Edge::Rw => "rw",
            Edge::Time => "time",
        }
    }
}

/// See the module head.
pub struct Graph {
    starts: Vec<usize>,
    edges: Vec<(usize, Edge)>,
}

/// Not visited yet.
const UNSEEN: usize = usize::MAX;

impl Graph {
    /// A graph of so many nodes, with edges from the first to the second.
    pub fn new(nodes: usize, mut list: Vec<(usize, usize, Edge)>) -> Self {
        list.sort_unstable_by_key(|(from, to, _)| (*from, *to));
        let mut starts = vec![0; nodes + 1];
        for (from, _, _) in &list {
            starts[from + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        Graph { starts, edges: list.into_iter().map(|(_, to, edge)| (to, edge)).collect() }
    }

    /// How many edges there are.
    pub fn len(&self) -> u64 {
        self.edges.len() as u64
    }

    fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    fn from(&self, node: usize) -> &[(usize, Edge)] {
        &self.edges[self.starts[node]..self.starts[node + 1]]
    }

    /// Only the edges for which `keep` is true.
    fn filtered(&self, keep: impl Fn(Edge) -> bool) -> Graph {
        let mut list = Vec::new();
        for from in 0..self.nodes() {
            let kept = self.from(from).iter().filter(|(_, edge)| keep(*edge));
            list.extend(kept.map(|(to, edge)| (from, *to, *edge)));
        }
        Graph::new(self.nodes(), list)
    }

    /// A cycle of edges for which `keep` is true, if there is one: nodes with the edge to the next.
    pub fn cycle(&self, keep: impl Fn(Edge) -> bool) -> Option<Vec<(usize, Edge)>> {
        self.filtered(keep).any_cycle()
    }

    /// A cycle in which no two rw follow each other, if there is one.
    pub fn cycle_without_adjacent_rw(&self) -> Option<Vec<(usize, Edge)>> {
        // Each node twice: 2n, and 2n + 1 for who comes there by rw and must leave otherwise.
        let mut list = Vec::new();
        for from in 0..self.nodes() {
            for (to, edge) in self.from(from) {
                match edge {
                    Edge::Rw => list.push((from * 2, to * 2 + 1, *edge)),
                    _ => list.extend([0, 1].map(|came| (from * 2 + came, to * 2, *edge))),
                }
            }
        }
        let cycle = Graph::new(self.nodes() * 2, list).any_cycle()?;
        Some(cycle.into_iter().map(|(node, edge)| (node / 2, edge)).collect())
    }

    /// How many groups of several nodes there are in which each leads to each.
    pub fn knots(&self) -> u64 {
        let components = self.components();
        let mut members = vec![0u32; self.nodes()];
        components.iter().for_each(|component| members[*component] += 1);
        members.iter().filter(|members| **members > 1).count() as u64
    }

    fn any_cycle(&self) -> Option<Vec<(usize, Edge)>> {
        let components = self.components();
        let inside = |from: usize, to: usize| components[from] == components[to];
        let start = (0..self.nodes())
            .find(|from| self.from(*from).iter().any(|(to, _)| inside(*from, *to)))?;
        // The shortest way back.
        let mut came = vec![(UNSEEN, Edge::Time); self.nodes()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for (to, edge) in self.from(node) {
                if *to == start {
                    return Some(way_back(&came, start, (node, *edge)));
                }
                if inside(node, *to) && came[*to].0 == UNSEEN {
                    came[*to] = (node, *edge);
                    queue.push_back(*to);
                }
            }
        }
        None
    }

    /// Which strongly connected component each node is in, by Tarjan's algorithm.
    fn components(&self) -> Vec<usize> {
        let nodes = self.nodes();
        let (mut order, mut low) = (vec![UNSEEN; nodes], vec![0; nodes]);
        let mut component = vec![UNSEEN; nodes];
        let (mut stack, mut calls) = (Vec::new(), Vec::new());
        let (mut counter, mut components) = (0, 0);
        for root in 0..nodes {
            if order[root] != UNSEEN {
                continue;
            }
            calls.push((root, self.starts[root]));
            while let Some((node, edge)) = calls.pop() {
                if order[node] == UNSEEN {
                    (order[node], low[node]) = (counter, counter);
                    counter += 1;
                    stack.push(node);
                }
                if edge < self.starts[node + 1] {
                    let (to, _) = self.edges[edge];
                    calls.push((node, edge + 1));
                    if order[to] == UNSEEN {
                        calls.push((to, self.starts[to]));
                    } else if component[to] == UNSEEN {
                        low[node] = low[node].min(order[to]);
                    }
                    continue;
                }
                if low[node] == order[node] {
                    while let Some(member) = stack.pop() {
                        component[member] = components;
                        if member == node {
                            break;
                        }
                    }
                    components += 1;
                }
                if let Some((parent, _)) = calls.last() {
                    low[*parent] = low[*parent].min(low[node]);
                }
            }
        }
        component
    }
}

/// The cycle from `start` to `last` and back, in its direction.
fn way_back(came: &[(usize, Edge)], start: usize, last: (usize, Edge)) -> Vec<(usize, Edge)> {
    let mut steps = vec![last];
    let mut node = last.0;
    while node != start {
        let (before, edge) = came[node];
        steps.push((before, edge));
        node = before;
    }
    steps.reverse();
    steps
}
