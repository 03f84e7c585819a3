import { createSocket } from 'node:dgram'
import { networkInterfaces } from 'node:os'

/** An address to which a magic packet is sent: a broadcast address, or that of a relay. */
export interface PacketTarget {
  readonly host: string
  readonly port: number
}

/** The usual port: no program has to listen there, as the network card reads the packet. */
const discardPort = 9
/** A computer with containers has dozens of networks. */
const targetsMax = 16
const repeats = 16

const bytesOf = (mac: string): Buffer => Buffer.from(mac.replaceAll(':', ''), 'hex')

/** Six times ff, sixteen times the address, and the password of SecureOn if the card wants one. */
export function magicPacket(mac: string, secureOn: string | null): Buffer {
  const address = bytesOf(mac)
  const body = Array.from({ length: repeats }, () => address)
  return Buffer.concat([Buffer.alloc(6, 0xff), ...body, secureOn === null ? Buffer.alloc(0) : bytesOf(secureOn)])
}

/** The broadcast address of a network, of an address in it and its prefix length. */
function broadcastOf(cidr: string): string | null {
  const [address = '', length = ''] = cidr.split('/')
  const parts = address.split('.').map(Number)
  const bits = Number(length)
  if (parts.length !== 4 || !Number.isInteger(bits) || bits < 1 || bits > 30) return null
  const own = parts.reduce((sum, part) => sum * 256 + part, 0)
  const host = 2 ** (32 - bits) - 1
  const last = Math.floor(own / (host + 1)) * (host + 1) + host
  return [24, 16, 8, 0].map((shift) => Math.floor(last / 2 ** shift) % 256).join('.')
}

/** Everybody on each network of this computer. The general address alone would leave by one of its cards only. */
export function broadcastTargets(interfaces = networkInterfaces()): readonly PacketTarget[] {
  const cidrs = Object.values(interfaces).flatMap((entries = []) =>
    entries.flatMap(({ family, internal, cidr }) => (family === 'IPv4' && !internal && cidr !== null ? [cidr] : [])),
  )
  const hosts = ['255.255.255.255', ...cidrs.flatMap((cidr) => broadcastOf(cidr) ?? [])]
  return [...new Set(hosts)].slice(0, targetsMax).map((host) => ({ host, port: discardPort }))
}

/** Reads `192.168.1.255:9`; without a port it is 9. null: it is no IPv4 address. */
export function packetTarget(text: string): PacketTarget | null {
  const [, host, port = String(discardPort)] = /^([0-9]{1,3}(?:\.[0-9]{1,3}){3})(?::([0-9]{1,5}))?$/.exec(text) ?? []
  if (host === undefined || host.split('.').some((part) => Number(part) > 255)) return null
  return Number(port) >= 1 && Number(port) <= 65_535 ? { host, port: Number(port) } : null
}

/** Resolves with the number of targets that took the packet. Rejects if none did, with the last system error. */
export async function sendMagicPacket(packet: Buffer, targets: readonly PacketTarget[]): Promise<number> {
  const socket = createSocket('udp4')
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject)
      socket.bind(0, () => resolve())
    })
    socket.on('error', () => {})
    socket.setBroadcast(true)
    const sent = await Promise.allSettled(targets.map((target) => sendOne(socket, packet, target)))
    const failed = sent.filter((each) => each.status === 'rejected')
    if (failed.length === sent.length) throw failed.at(-1)?.reason ?? new Error('there is no target')
    return sent.length - failed.length
  } finally {
    socket.close()
  }
}

const sendOne = (socket: ReturnType<typeof createSocket>, packet: Buffer, { host, port }: PacketTarget) =>
  new Promise<void>((resolve, reject) => {
    socket.send(packet, port, host, (error) => (error == null ? resolve() : reject(error)))
  })
