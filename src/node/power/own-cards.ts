import { networkInterfaces } from 'node:os'
import { macOf, macsMax, networksMax } from '../../protocol/wire/nodes/power.ts'

type Interfaces = ReturnType<typeof networkInterfaces>

/** Bridges and tunnels of containers and virtual machines: no packet wakes them. */
const virtual = /^(?:docker|br-|veth|virbr|cni|flannel|podman|lxc|tun|tap|wg|utun|bridge|vmnet|vEthernet)/i

const cardsOf = (interfaces: Interfaces) =>
  Object.entries(interfaces).flatMap(([name, entries = []]) =>
    virtual.test(name) ? [] : entries.filter(({ family, internal }) => family === 'IPv4' && !internal),
  )

/** The hardware addresses of this computer's network cards that have an IPv4 address, at most `macsMax`. */
export function ownMacs(interfaces: Interfaces = networkInterfaces()): readonly string[] {
  return [...new Set(cardsOf(interfaces).flatMap(({ mac }) => macOf(mac) ?? []))].slice(0, macsMax)
}

/** The networks that it is on, as `192.168.1.20/24`, at most `networksMax`. */
export function ownNetworks(interfaces: Interfaces = networkInterfaces()): readonly string[] {
  return [...new Set(cardsOf(interfaces).flatMap(({ cidr }) => cidr ?? []))].slice(0, networksMax)
}
