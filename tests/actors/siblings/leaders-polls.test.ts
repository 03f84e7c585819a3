import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PollBook } from '../../../src/actors/polls/poll-book.ts'
import { SharedPolls } from '../../../src/actors/polls/shared-polls.ts'
import { askLeaderOf } from '../../../src/actors/siblings/leaders-polls.ts'
import { createSiblings, ownPartPath } from '../../../src/actors/siblings/siblings.ts'
import { headers } from '../../../src/brand.ts'
import type { NodeId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import type { PollResult } from '../../../src/polling/node-watch.ts'
import { lasts } from '../../support/run/lasts.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const secret = 'of-this-gateway'
const refused: PollResult = { kind: 'failed', code: 'refused' }
const timeout: PollResult = { kind: 'failed', code: 'timeout' }
const nodeId = 'node_1' as NodeId
const busyMs = 1_500

const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

type Door = (request: Request) => Response | Promise<Response>

/** What one process answers that has polled this: `result`. */
const leading =
  (result: PollResult): Door =>
  (request) => {
    const book = new PollBook()
    book.record(nodeId, 'way', result, performance.now())
    return Response.json(book.since(Number(new URL(request.url).searchParams.get('since')), performance.now()))
  }
/** One that is so busy that it answers each question after longer than others are waited for. */
const busy =
  (door: Door): Door =>
  async (request) => {
    await lasts(busyMs)
    return door(request)
  }
const noSuchRoute: Door = () => Response.json({ error: { code: 'route_not_found' } }, { status: 404 })
const standsStill: Door = () => new Promise<Response>(() => {})
const otherShape: Door = () => Response.json({ up_to: 1, more: false, polls: [{ node_id: 1 }] })

/** A process beside others, by real sockets, which asks for one node. */
function beside(doors: Readonly<Record<string, Door>>) {
  const socketFolder = mkdtempSync(join(tmpdir(), 'siblings-'))
  ends.push(() => rmSync(socketFolder, { recursive: true, force: true }))
  const place = (socketName: string) =>
    createSiblings({ index: 0, socketFolder, socketName, secret, doors: [], leads: false })
  const asked: string[] = []
  const open = (name: string, door: Door) => {
    const self = place(name)
    const server = Bun.serve({
      unix: join(socketFolder, name),
      fetch: (request) => {
        const { pathname, search } = new URL(request.url)
        if (pathname !== `${ownPartPath}polls`) return new Response(null, { status: 404 })
        if (!self.admits(request.headers.get(headers.peerProof), pathname + search)) {
          return new Response(null, { status: 401 })
        }
        asked.push(name)
        return door(request)
      },
    })
    ends.push(() => server.stop(true))
    return server
  }
  const servers = Object.entries(doors).map(([name, door]) => open(name, door))
  const siblings = place('own.sock')
  ends.push(() => siblings.close())
  const polled: NodeId[] = []
  const taken: PollResult[] = []
  const polls = new SharedPolls({
    config: { SVC_POLL_INTERVAL_MS: 100, SVC_PROBE_TIMEOUT_MS: 15_000, SVC_STALE_AFTER_MS: 60_000 },
    log: createLog('silent', () => {}),
    leads: false,
    ask: askLeaderOf(siblings),
  })
  ends.push(() => polls.stop())
  polls.start({
    knows: () => true,
    take: (_nodeId, _way, result) => {
      taken.push(result)
      return true
    },
    poll: (id) => void polled.push(id),
    resume: () => {},
  })
  polls.expects(nodeId)
  return { polls, polled, taken, asked, servers, open }
}

describe('§37: a process finds the one that polls for all', () => {
  test('among those that do not, one that stands still, and one that answers in another shape', async () => {
    const { polls, taken, asked } = beside({
      '1-1.sock': noSuchRoute,
      '2-1.sock': standsStill,
      '3-1.sock': otherShape,
      '4-1.sock': leading(refused),
    })
    await waitUntil('its news', () => polls.spares(nodeId))
    expect(taken).toContainEqual(refused)
    const before = asked.length
    await waitUntil('more questions', () => asked.length >= before + 3)
    // The one that leads is asked from then on, and no other.
    expect(new Set(asked.slice(before))).toEqual(new Set(['4-1.sock']))
  })

  test('and waits for it also when it is busy: more polls would make it no less so', async () => {
    let isBusy = false
    const slow = busy(leading(refused))
    const { polls, asked } = beside({
      '1-1.sock': (request) => (isBusy ? slow(request) : leading(refused)(request)),
      '2-1.sock': noSuchRoute,
    })
    await waitUntil('its news', () => polls.spares(nodeId))
    isBusy = true
    const before = asked.length
    await waitUntil('more questions', () => asked.length >= before + 3)
    expect(new Set(asked.slice(before))).toEqual(new Set(['1-1.sock']))
  })

  test('with two at once it keeps to one of them', async () => {
    const { polls, taken, asked } = beside({ '1-1.sock': leading(refused), '2-1.sock': leading(timeout) })
    await waitUntil('its news', () => polls.spares(nodeId))
    const before = asked.length
    await waitUntil('more questions', () => asked.length >= before + 3)
    expect(new Set(asked.slice(before)).size).toBe(1)
    expect(new Set(taken.map((result) => JSON.stringify(result))).size).toBe(1)
  })

  test('again when another one takes its place', async () => {
    const { polls, taken, servers, open } = beside({ '1-1.sock': leading(refused) })
    await waitUntil('its news', () => polls.spares(nodeId))
    await servers[0]?.stop(true)
    open('1-2.sock', leading(timeout))
    await waitUntil('news of the other', () => taken.some((result) => Bun.deepEquals(result, timeout)))
  })

  test('beside one of an earlier version alone it polls by itself', async () => {
    const { polls, polled, asked } = beside({ '1-1.sock': noSuchRoute })
    await waitUntil('a poll of its own', () => polled.length > 0)
    await waitUntil('further questions', () => asked.length >= 3)
    expect(polls.spares(nodeId)).toBe(false)
  })

  test('beside one that stands still it polls by itself, without a wait for its answer', async () => {
    const { polls, polled } = beside({ '1-1.sock': standsStill })
    await waitUntil('a poll of its own', () => polled.length > 0)
    expect(polls.spares(nodeId)).toBe(false)
  })
})
