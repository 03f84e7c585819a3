import { expect, test } from 'bun:test'
import { Body } from '../../src/transport/body.ts'
import type { BodySink } from '../../src/transport/transport.ts'
import { TransportError } from '../../src/transport/transport.ts'

const KiB = 1024
/** Twice as much processor time as bytes of nodes may take in one turn, µs. */
const busyUs = 16_000

/** A reader to whom each piece costs a whole turn. */
class BusyReader implements BodySink {
  readonly pieces: number[] = []
  readonly end = Promise.withResolvers<string>()
  onPiece: () => void = () => {}

  bytes(chunk: Buffer): void {
    this.pieces.push(chunk.length)
    const before = process.cpuUsage()
    for (let spentUs = 0; spentUs < busyUs; ) {
      const { user, system } = process.cpuUsage(before)
      spentUs = user + system
    }
    this.onPiece()
  }

  ended(): void {
    this.end.resolve('ended')
  }

  failed({ failure }: TransportError): void {
    this.end.resolve(failure)
  }

  get size(): number {
    return this.pieces.reduce((sum, length) => sum + length, 0)
  }
}

/** A node's connection, and whether it is held back. */
function connection() {
  const flow = {
    held: false,
    pause: () => {
      flow.held = true
    },
    resume: () => {
      flow.held = false
    },
  }
  return flow
}

function reading(): { body: Body; reader: BusyReader; flow: ReturnType<typeof connection> } {
  const flow = connection()
  const [body, reader] = [new Body(flow), new BusyReader()]
  body.read(reader)
  return { body, reader, flow }
}

test('§27: what one read has is handed on over several turns, and others have theirs between', async () => {
  const { body, reader, flow } = reading()
  const short = reading()
  let turns = 0
  let shortAfter = 0
  const turn = () => {
    turns++
    if (turns === 2) short.body.bytes(Buffer.alloc(100))
    if (reader.size < 512 * KiB) setImmediate(turn)
  }
  setImmediate(turn)
  short.reader.onPiece = () => {
    shortAfter = reader.size
  }
  body.bytes(Buffer.alloc(512 * KiB, 'x'))
  expect(reader.size).toBeLessThan(512 * KiB)
  expect(flow.held).toBe(true)
  body.ended()
  expect(await reader.end.promise).toBe('ended')
  expect(reader.size).toBe(512 * KiB)
  expect(turns).toBeGreaterThan(5)
  expect(flow.held).toBe(false)
  expect(shortAfter).toBeGreaterThan(0)
  expect(shortAfter).toBeLessThan(512 * KiB)
})

test('§27: a failure of the node comes behind its bytes, and a cut of this side at once', async () => {
  for (const [failure, all] of [
    ['closed', true],
    ['aborted', false],
  ] as const) {
    const { body, reader } = reading()
    body.bytes(Buffer.alloc(256 * KiB))
    const before = reader.size
    body.failed(new TransportError(failure))
    expect(await reader.end.promise).toBe(failure)
    expect(reader.size).toBe(all ? 256 * KiB : before)
  }
})

test('§27: a reader that holds the node back gets nothing until it lets go, and then all in order', async () => {
  const { body, reader } = reading()
  const bytes = Buffer.from(Array.from({ length: 256 * KiB }, (_, at) => at % 251))
  const seen: Buffer[] = []
  const keep = reader.bytes.bind(reader)
  reader.bytes = (chunk) => {
    seen.push(Buffer.from(chunk))
    keep(chunk)
    body.pause()
    setImmediate(() => body.resume())
  }
  body.bytes(bytes.subarray(0, 100 * KiB))
  body.bytes(bytes.subarray(100 * KiB))
  body.ended()
  expect(await reader.end.promise).toBe('ended')
  expect(seen.length).toBeGreaterThan(7)
  expect(Buffer.concat(seen).equals(bytes)).toBe(true)
})
