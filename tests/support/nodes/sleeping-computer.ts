import { createSocket } from 'node:dgram'
import { type FakeNode, type FakeNodeOptions, startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { freePort } from '../gateways/free-port.ts'

/** The network card of a computer that sleeps: what it hears while the computer is off, and whether that wakes it. */
export interface NetworkCard {
  readonly mac: string
  /** Where magic packets reach it, as `SVC_WAKE_ADDRESSES` takes it. */
  readonly address: string
  /** How many packets for it came. */
  readonly packets: number
  /** Packets that were not for it, or without its password. */
  readonly others: number
  stop(): void
}

export interface CardOptions {
  readonly mac: string
  /** SecureOn. */
  readonly password?: string
  /** Absent: it is deaf. */
  readonly wakes?: () => void
}

const bytes = (mac: string) => Buffer.from(mac.replaceAll(':', ''), 'hex')

/** Written from AMD's white paper, not from the sender: six times ff, the address sixteen times, then the password. */
function isFor(packet: Buffer, mac: string, password: string | undefined): boolean {
  const start = packet.indexOf(Buffer.alloc(6, 0xff))
  if (start === -1) return false
  const address = bytes(mac)
  for (let copy = 0; copy < 16; copy++) {
    const at = start + 6 + copy * 6
    if (!packet.subarray(at, at + 6).equals(address)) return false
  }
  return password === undefined || packet.subarray(start + 102, start + 108).equals(bytes(password))
}

export async function networkCard({ mac, password, wakes }: CardOptions): Promise<NetworkCard> {
  const socket = createSocket('udp4')
  let packets = 0
  let others = 0
  socket.on('message', (packet) => {
    if (!isFor(packet, mac, password)) {
      others++
      return
    }
    packets++
    wakes?.()
  })
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
  return {
    mac,
    address: `127.0.0.1:${socket.address().port}`,
    get packets() {
      return packets
    },
    get others() {
      return others
    },
    stop: () => socket.close(),
  }
}

/** A computer with a model server, which a person can send to sleep, and a magic packet wakes. */
export interface SleepingComputer {
  readonly url: string
  readonly card: NetworkCard
  /** null: it sleeps. */
  readonly node: FakeNode | null
  fallAsleep(): void
  /** A person presses its button. */
  wake(): void
  stop(): void
}

export interface ComputerOptions extends Omit<CardOptions, 'wakes'> {
  readonly server?: Omit<FakeNodeOptions, 'port'>
  /** Between the packet and its server, ms. */
  readonly wakeMs?: number
  /** Its card hears nothing. */
  readonly deaf?: boolean
}

export async function sleepingComputer(options: ComputerOptions): Promise<SleepingComputer> {
  const port = freePort()
  const start = () => startFakeNode({ ...options.server, port })
  let node: FakeNode | null = start()
  let waking: ReturnType<typeof setTimeout> | null = null
  const wake = () => {
    node ??= start()
  }
  const card = await networkCard({
    mac: options.mac,
    ...(options.password === undefined ? {} : { password: options.password }),
    wakes: () => {
      if (options.deaf === true || node !== null) return
      waking ??= setTimeout(() => {
        waking = null
        wake()
      }, options.wakeMs ?? 0)
    },
  })
  const fallAsleep = () => {
    node?.stop()
    node = null
  }
  return {
    url: `http://127.0.0.1:${port}`,
    card,
    get node() {
      return node
    },
    fallAsleep,
    wake,
    stop: () => {
      if (waking !== null) clearTimeout(waking)
      fallAsleep()
      card.stop()
    },
  }
}
