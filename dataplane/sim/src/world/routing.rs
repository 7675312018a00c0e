//! What routers of a world know: the shortest ways to every address.

use wire::ethernet::Mac;

use super::{End, RouterId, World};
use crate::router::{Port, Verdict};

impl World {
    /// What a router does with a frame that came in by `port`.
    pub(super) fn route(&mut self, router: RouterId, port: usize, bytes: Vec<u8>) {
        if self.routes_stale {
            self.compute_routes();
        }
        let links = &self.links;
        let mtu_of = |port: &Port| {
            let config = links[port.link.0].directions[port.way.index()].config();
            config.up.then_some(config.mtu)
        };
        let verdict = self.routers[router.0].on_frame(self.now, port, bytes, mtu_of);
        if let Verdict::Send { port, frame, made_here } = verdict
            && let Some((link, way)) =
                self.routers[router.0].ports.get(port).map(|p| (p.link, p.way))
        {
            self.offer(link, way, frame, made_here);
        }
    }

    /// Shortest ways from every router to every address, counted in links.
    fn compute_routes(&mut self) {
        self.routes_stale = false;
        // Who is at the other end of each card of a router.
        for r in 0..self.routers.len() {
            for p in 0..self.routers[r].ports.len() {
                let (link, way) = (self.routers[r].ports[p].link, self.routers[r].ports[p].way);
                let (peer, on_link) = match self.links[link.0].ends[1 - way.index()] {
                    End::Host(h, card) => {
                        let host = &self.hosts[h.0];
                        (Mac(host.macs()[card]), host.card_addresses(card))
                    }
                    End::Router(other, port) => (self.routers[other.0].ports[port].mac, Vec::new()),
                    End::Switch(_) => (Mac::ZERO, Vec::new()),
                };
                let port = &mut self.routers[r].ports[p];
                (port.peer, port.on_link) = (peer, on_link);
            }
            self.routers[r].routes.clear();
        }
        for first in 0..self.routers.len() {
            for port in 0..self.routers[first].ports.len() {
                let addresses = self.routers[first].ports[port].on_link.clone();
                if addresses.is_empty() {
                    continue;
                }
                let far = self.distances(first);
                for r in 0..self.routers.len() {
                    let Some(here) = far[r] else { continue };
                    let ports: Vec<usize> = if r == first {
                        vec![port]
                    } else {
                        let nearer = |port: &Port| {
                            matches!(self.links[port.link.0].ends[1 - port.way.index()],
                                End::Router(next, _) if far[next.0].is_some_and(|d| d < here))
                        };
                        let ports = self.routers[r].ports.iter().enumerate();
                        ports.filter(|(_, p)| nearer(p)).map(|(i, _)| i).collect()
                    };
                    for addr in &addresses {
                        self.routers[r].routes.insert(*addr, ports.clone());
                    }
                }
            }
        }
    }

    /// Links between routers from each of them to one of them.
    fn distances(&self, to: usize) -> Vec<Option<u32>> {
        let mut far = vec![None; self.routers.len()];
        far[to] = Some(0);
        let mut reached = vec![to];
        let mut next = 0;
        while let Some(&r) = reached.get(next) {
            next += 1;
            for port in &self.routers[r].ports {
                if let End::Router(other, _) = self.links[port.link.0].ends[1 - port.way.index()]
                    && far[other.0].is_none()
                {
                    far[other.0] = far[r].map(|d: u32| d + 1);
                    reached.push(other.0);
                }
            }
        }
        far
    }
}
