import type { Socket } from 'bun'
import { greeting, message, ready, ZmtpReader } from '../../../src/node/kv-events/zmtp.ts'

/** How the published classes are written: vLLM's as lists and, in later versions, as maps; SGLang's as shorter lists. */
export type KvForm = 'vllm' | 'vllm, maps' | 'sglang'

type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | readonly Value[]
  | { readonly [name: string]: Value }

/** msgpack of a value. */
export function packed(value: Value): Buffer {
  if (value === null) return Buffer.from([0xc0])
  if (typeof value === 'boolean') return Buffer.from([value ? 0xc3 : 0xc2])
  if (typeof value === 'bigint') {
    const bytes = Buffer.alloc(9, 0xcf)
    bytes.writeBigUInt64BE(value, 1)
    return bytes
  }
  if (typeof value === 'number') {
    if (Number.isInteger(value) && value >= 0 && value < 128) return Buffer.from([value])
    const bytes = Buffer.alloc(Number.isInteger(value) ? 5 : 9, Number.isInteger(value) ? 0xce : 0xcb)
    if (Number.isInteger(value)) bytes.writeUInt32BE(value, 1)
    else bytes.writeDoubleBE(value, 1)
    return bytes
  }
  if (typeof value === 'string') {
    const text = Buffer.from(value)
    return Buffer.concat([Buffer.from([0xd9, text.length]), text])
  }
  if (value instanceof Uint8Array) return Buffer.concat([Buffer.from([0xc4, value.length]), value])
  if (Array.isArray(value)) {
    const head = Buffer.alloc(3, 0xdc)
    head.writeUInt16BE(value.length, 1)
    return Buffer.concat([head, ...value.map(packed)])
  }
  const members = Object.entries(value)
  return Buffer.concat([Buffer.from([0x80 + members.length]), ...members.flat().map((one) => packed(one as Value))])
}

const seqOf = (seq: number) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64BE(BigInt(seq))
  return bytes
}

interface Peer {
  readonly reader: ZmtpReader
}

/** A listening end of ZeroMQ. `heard`: a message of a peer that has said what it is. `isAway`: who connects is cut off. */
function listening(
  socketType: string,
  heard: (socket: Socket<Peer>, frames: readonly Uint8Array[]) => void,
  isAway: () => boolean,
) {
  const peers = new Set<Socket<Peer>>()
  const server = Bun.listen<Peer>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      open: (socket) => {
        const reader = new ZmtpReader({
          onReady: () => {},
          onMessage: (frames) => heard(socket, frames),
          answer: (bytes) => void socket.write(bytes),
        })
        socket.data = { reader }
        if (isAway()) {
          socket.terminate()
          return
        }
        socket.write(Buffer.concat([greeting(), ready(socketType)]))
      },
      data: ({ data }, piece) => data.reader.push(piece),
      close: (socket) => void peers.delete(socket),
    },
  })
  return { peers, server }
}

/** A server with a prefix cache that plays the publishers of vLLM and SGLang (`kv_events.py` of both), and knows the truth. */
export class KvServer {
  readonly blockTokens = 16
  private readonly cached = new Map<bigint, string>()
  private readonly batches: Buffer[] = []
  private readonly pub = listening(
    'PUB',
    (socket, [frame]) => {
      if (frame?.[0] !== 1) return
      this.pub.peers.add(socket)
      this.subscriptions++
    },
    () => this.away,
  )
  private readonly router = listening(
    'ROUTER',
    (socket, [, from]) => this.replay(socket, from),
    () => this.away,
  )
  private away = false
  private lost = 0
  private dropped = 0
  replays = 0
  /** All that there were, also those that have ended. */
  subscriptions = 0

  constructor(
    private readonly form: KvForm,
    private readonly capacity: number,
    /** Batches that a replay still has. */
    private readonly replayed = 10_000,
  ) {}

  get endpoints() {
    return { port: this.pub.server.port, replay_port: this.router.server.port }
  }

  get subscribers(): number {
    return this.pub.peers.size
  }

  /** As the gateway's agent names blocks: by 53 bits of their hashes. */
  get truth(): ReadonlySet<number> {
    return new Set([...this.cached.keys()].map((hash) => Number(BigInt.asUintN(53, hash))))
  }

  tokens(adapter = ''): number {
    return [...this.cached.values()].filter((one) => one === adapter).length * this.blockTokens
  }

  get full(): boolean {
    return this.dropped > 0
  }

  /** It has read a prompt of these blocks. */
  read(hashes: readonly bigint[], adapter = ''): void {
    const fresh = hashes.filter((hash) => !this.cached.has(hash))
    for (const hash of hashes) {
      this.cached.delete(hash)
      this.cached.set(hash, adapter)
    }
    const gone: bigint[] = []
    for (const oldest of this.cached.keys()) {
      if (this.cached.size <= this.capacity) break
      this.cached.delete(oldest)
      gone.push(oldest)
    }
    this.dropped += gone.length
    this.publish([
      ...(gone.length === 0 ? [] : [this.removed(gone)]),
      ...(fresh.length === 0 ? [] : [this.stored(fresh, adapter)]),
    ])
  }

  clear(): void {
    this.cached.clear()
    this.dropped = 0
    this.publish([this.form === 'vllm, maps' ? { type: 'AllBlocksCleared' } : ['AllBlocksCleared']])
  }

  /** The next batches reach no subscriber. */
  lose(batches: number): void {
    this.lost += batches
  }

  /** What is no event of blocks, as a hostile or broken server sends it. */
  publishBytes(payload: Buffer): void {
    const seq = this.batches.push(payload) - 1
    if (this.lost > 0) this.lost--
    else for (const socket of this.pub.peers) socket.write(message(Buffer.alloc(0), seqOf(seq), payload))
  }

  /** Bytes outside of any message. */
  sendRaw(bytes: Uint8Array): void {
    for (const socket of this.pub.peers) socket.write(bytes)
  }

  /** The server ends, and refuses connections until `comeBack`. */
  cut(): void {
    this.away = true
    for (const socket of this.pub.peers) socket.terminate()
  }

  comeBack(): void {
    this.away = false
  }

  stop(): void {
    this.pub.server.stop(true)
    this.router.server.stop(true)
  }

  private stored(hashes: readonly bigint[], adapter: string): Value {
    const tokens = hashes.flatMap(() => Array.from({ length: this.blockTokens }, (_, at) => at))
    if (this.form === 'sglang') return ['BlockStored', hashes, null, tokens, this.blockTokens, null]
    const lora = adapter === '' ? null : adapter
    if (this.form === 'vllm') return ['BlockStored', hashes, null, tokens, this.blockTokens, null, 'GPU', lora]
    const ids = hashes.map((hash) => Buffer.concat([Buffer.alloc(24, 7), seqOf(Number(BigInt.asUintN(53, hash)))]))
    const fields = { block_hashes: ids, parent_block_hash: null, token_ids: tokens, block_size: this.blockTokens }
    return { type: 'BlockStored', ...fields, lora_id: null, medium: 'GPU', lora_name: lora }
  }

  private removed(hashes: readonly bigint[]): Value {
    if (this.form === 'sglang') return ['BlockRemoved', hashes]
    if (this.form === 'vllm') return ['BlockRemoved', hashes, 'GPU']
    const ids = hashes.map((hash) => Buffer.concat([Buffer.alloc(24, 7), seqOf(Number(BigInt.asUintN(53, hash)))]))
    return { type: 'BlockRemoved', block_hashes: ids, medium: 'GPU' }
  }

  private publish(events: readonly Value[]): void {
    if (events.length === 0) return
    const ts = 1_795_000_000.5
    const batch = { vllm: [ts, events, 0], 'vllm, maps': { ts, events, data_parallel_rank: 0 }, sglang: [ts, events] }
    this.publishBytes(packed(batch[this.form]))
  }

  private replay(socket: Socket<Peer>, from: Uint8Array | undefined): void {
    this.replays++
    const first = from === undefined ? 0 : Number(Buffer.from(from).readBigInt64BE())
    const kept = this.batches.length - this.replayed
    const sent = this.batches.flatMap((payload, seq) =>
      seq < Math.max(first, kept) ? [] : [message(Buffer.alloc(0), seqOf(seq), payload)],
    )
    socket.write(Buffer.concat([...sent, message(Buffer.alloc(0), seqOf(-1), Buffer.alloc(0))]))
  }
}
