import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { createTunnelTransport } from '../../src/actors/tunnels/tunnel-transport.ts'
import { windowBytes } from '../../src/protocol/tunnel/tunnel-frames.ts'
import type { NodeResponse, NodeTransport } from '../../src/transport/transport.ts'
import { get, nextOpen, nodeId, post, startTunnelServer, type TunnelServer } from '../support/nodes/tunnel-pair.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const streams = 999
const chunks = 30
const everyMs = 200
const rounds = 3
const floodChunkBytes = 8 * 1024
/** Of the medians, with the stalled reader and without; the rest is the noise of the machine. */
const ratioMax = 1.5

let gateway: TunnelServer
let node: Bun.Subprocess
let transport: NodeTransport
beforeAll(async () => {
  gateway = startTunnelServer()
  const opened = nextOpen(gateway.tunnels)
  node = Bun.spawn([process.execPath, join(import.meta.dir, '../support/nodes/tunnel-node-process.ts'), gateway.url], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  await opened
  transport = createTunnelTransport(() => gateway.tunnels.session(nodeId))
})
afterAll(async () => {
  node.kill()
  await node.exited
  await gateway.stop()
})

/** One stream read to its end: the gaps between its chunks, ms. */
async function gapsOf(path: string): Promise<readonly number[]> {
  const response = await transport.fetch(path, post('{}'))
  const gaps: number[] = []
  let atMs = 0
  let text = ''
  await new Promise<void>((resolve, reject) => {
    response.read({
      bytes: (chunk) => {
        const now = performance.now()
        if (atMs > 0) gaps.push(now - atMs)
        atMs = now
        text += chunk.toString('latin1')
      },
      ended: resolve,
      failed: reject,
    })
  })
  // Every one whole and in order, whatever else happens on the socket.
  expect([...(text.match(/"n":\d+/g) ?? [])]).toEqual(Array.from({ length: chunks }, (_, n) => `"n":${n}`))
  return gaps
}

async function p99(): Promise<number> {
  const path = `/flow?chunks=${chunks}&everyMs=${everyMs}`
  const all = (await Promise.all(Array.from({ length: streams }, () => gapsOf(path)))).flat().sort((a, b) => a - b)
  return all[Math.floor(all.length * 0.99)] ?? Number.NaN
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

interface Stalled {
  readonly response: NodeResponse
  read(): number
}

/** Reads the first chunk of a flood and then nothing more. */
async function stall(): Promise<Stalled> {
  const response = await transport.fetch('/flood', get)
  let read = 0
  response.read({
    bytes: (chunk) => {
      read += chunk.length
      response.flow.pause()
    },
    ended: () => {},
    failed: () => {},
  })
  await waitUntil('its window is used up', () => read >= windowBytes - floodChunkBytes)
  return { response, read: () => read }
}

test('§22: 1,000 streams, one reader stalled: the others are not slowed, and memory is bounded by the windows', async () => {
  const without: number[] = []
  const beside: number[] = []
  await p99()
  for (let round = 0; round < rounds; round++) {
    without.push(await p99())
    const before = Number(await (await transport.fetch('/flooded', get)).text(100))
    const stalled = await stall()
    beside.push(await p99())
    expect(stalled.read()).toBeLessThanOrEqual(windowBytes)
    const flooded = Number(await (await transport.fetch('/flooded', get)).text(100)) - before
    // What the window let through, and the one chunk that waits at the node.
    expect(flooded).toBeLessThanOrEqual(windowBytes + floodChunkBytes)
    stalled.response.discard()
  }
  const ratio = median(beside) / median(without)
  console.log(
    `inter-chunk p99 of ${streams} streams, a chunk every ${everyMs} ms: ${median(without).toFixed(1)} ms alone, ` +
      `${median(beside).toFixed(1)} ms beside a stalled reader (× ${ratio.toFixed(2)})`,
  )
  expect(ratio).toBeLessThanOrEqual(ratioMax)
  expect(gateway.tunnels.counts()).toEqual({ tunnels: 1, streams: 0 })
})

test('§22: 1,000 stalled readers hold one window each, and the tunnel serves on', async () => {
  const stalled = await Promise.all(Array.from({ length: 1_000 }, stall))
  expect(gateway.tunnels.counts().streams).toBe(1_000)
  for (const one of stalled) expect(one.read()).toBeLessThanOrEqual(windowBytes)
  expect(await (await transport.fetch('/?answer=here', get)).text(10)).toBe('here')
  for (const { response } of stalled) response.discard()
  expect(gateway.tunnels.counts()).toEqual({ tunnels: 1, streams: 0 })
})
