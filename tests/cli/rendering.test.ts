import { expect, test } from 'bun:test'
import { inWords, slotsCell } from '../../src/cli/commands/gateway/explain.ts'
import { type Turn, tokensPerSecond } from '../../src/cli/commands/inference/chat-stream.ts'
import { createWriter, statsLine } from '../../src/cli/commands/inference/chat-view.ts'
import { nodeTable } from '../../src/cli/commands/nodes/nodes-view.ts'
import { CliFailure, GatewayRefusal } from '../../src/cli/frame/failure.ts'
import { refusalOf } from '../../src/cli/frame/gateway-client.ts'
import { reportFailure } from '../../src/cli/frame/report-failure.ts'
import { fields, table } from '../../src/cli/frame/table.ts'
import { printable, type Terminal } from '../../src/cli/frame/terminal.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'

const esc = '\u001b'

/** A terminal that keeps what is written. */
function kept(outIsTerminal = false) {
  const written = { out: '', err: '' }
  const terminal: Terminal = {
    interactive: false,
    outIsTerminal,
    out: (text) => {
      written.out += text
    },
    err: (text) => {
      written.err += text
    },
    style: (style, text) => (outIsTerminal ? `<${style}>${text}</${style}>` : text),
    confirm: async () => false,
    readAll: async () => '',
  }
  return { terminal, written }
}

test('§5: the list of nodes says which one is to be reviewed', () => {
  const node = (name: string, admin_state: string, review: boolean) => ({
    ...{ node_id: `node_${name}`, name, state: 'ready', admin_state, runtimes: [], last_error: null, in_flight: 0 },
    usage_claims: { calls: 9, at_bound: review ? 6 : 5, review },
  })
  const nodes = [node('a', 'active', true), node('b', 'draining', true), node('c', 'active', false)]
  const lines = nodeTable(kept().terminal, nodes as unknown as readonly Node[], 0).split('\n')
  expect(lines.slice(1, 4).map((line) => line.split(/ {2,}/)[2])).toEqual([
    'ready, review',
    'ready, drained, review',
    'ready',
  ])
})

const turn: Turn = {
  content: 'x',
  reasoning: '',
  finishReason: 'stop',
  usage: { prompt_tokens: 3, completion_tokens: 101, total_tokens: 104 },
  metadata: { runtime_kind: 'vllm' },
  requestId: 'req_1',
  ttftMs: 250,
  totalMs: 2_250,
  stopped: false,
}

test('columns are aligned, numbers to the right, absent values as a dash', () => {
  const { terminal } = kept()
  expect(
    table(
      terminal,
      ['NAME', 'N', 'LAST'],
      [
        ['a', 5, null],
        ['long name', 100, 'x'],
      ],
    ),
  ).toBe('NAME         N  LAST\na            5  -\nlong name  100  x\n')
  expect(table(terminal, ['NAME'], [], 'No keys.')).toBe('No keys.\n')
  expect(table(terminal, ['名', 'X'], [['漢字', 'b']])).toBe('名    X\n漢字  b\n')
  expect(
    fields(terminal, [
      ['A', true],
      ['Longer', 0],
      ['C', undefined],
    ]),
  ).toBe('A       yes\nLonger  0\nC       -\n')
})

test('states are coloured in a terminal only', () => {
  expect(table(kept(true).terminal, ['STATE'], [['ready'], ['offline']])).toBe(
    '<bold>STATE</bold>\n<green>ready</green>\n<red>offline</red>\n',
  )
})

test('what comes over the wire does not steer the terminal', () => {
  const { terminal, written } = kept(true)
  createWriter(terminal).piece('content', `a${esc}]0;title\u0007b\r\nc\td`)
  expect(written.out).toBe('a]0;titleb\nc\td')
  expect(table(kept().terminal, ['NAME'], [[`x${esc}[2J\ny`]])).toBe('NAME\nx[2Jy\n')
  expect(printable(`${esc}[31mred`)).toBe('[31mred')
})

test('thoughts are set apart in a terminal and left out of a pipe', () => {
  const [person, pipe] = [kept(true), kept(false)]
  for (const { terminal } of [person, pipe]) {
    const writer = createWriter(terminal)
    writer.piece('reasoning', 'hm')
    writer.piece('content', 'yes')
    writer.end()
  }
  expect(person.written.out).toBe('<dim>hm</dim>\n\nyes\n')
  expect(pipe.written.out).toBe('yes\n')
})

test('the line after an answer has rate and time to first token', () => {
  expect(tokensPerSecond(turn)).toBe(50)
  expect(statsLine(turn)).toBe('[101 tokens, 50.0 tokens/s, first after 0.25 s, 2.25 s in all, vllm, req_1]')
  expect(statsLine({ ...turn, usage: null, stopped: true, finishReason: 'length' })).toBe(
    '[stopped, first after 0.25 s, 2.25 s in all, ended by length, vllm, req_1]',
  )
  expect(tokensPerSecond({ ...turn, totalMs: 260 })).toBeNull()
})

test('both error envelopes are read', () => {
  const problem = { title: 'No such node', detail: 'No such node', code: 'node_not_found', request_id: 'req_1' }
  expect(refusalOf(404, problem, new Headers())).toEqual({
    status: 404,
    title: 'No such node',
    detail: 'No such node',
    code: 'node_not_found',
    requestId: 'req_1',
    retryAfterSeconds: null,
  })
  const error = {
    message: 'Full.',
    code: 'capacity_exhausted',
    param: null,
    svc: { request_id: 'req_2', retry_after_seconds: 3 },
  }
  expect(refusalOf(429, { error }, new Headers())).toMatchObject({
    title: 'Full.',
    detail: null,
    code: 'capacity_exhausted',
    requestId: 'req_2',
    retryAfterSeconds: 3,
  })
  const page = refusalOf(502, null, new Headers({ 'x-request-id': 'req_3', 'retry-after': '7' }))
  expect(page).toMatchObject({ title: 'The gateway answered with HTTP 502', requestId: 'req_3', retryAfterSeconds: 7 })
})

test('a failure is told in words, with its request id, and never as a stack', () => {
  const refusal = {
    status: 404,
    title: 'No such node',
    detail: null,
    code: 'node_not_found',
    requestId: 'req_1',
    retryAfterSeconds: null,
  }
  const plain = kept()
  expect(reportFailure(plain.terminal, new GatewayRefusal(refusal), false)).toBe(1)
  expect(plain.written.err).toBe('penstock: No such node (node_not_found)\n  Request req_1\n')
  const json = kept()
  reportFailure(json.terminal, new GatewayRefusal(refusal), true)
  expect(JSON.parse(json.written.err)).toMatchObject({ error: { code: 'node_not_found', request_id: 'req_1' } })
  const bug = kept()
  expect(reportFailure(bug.terminal, new TypeError('secret inside'), false)).toBe(1)
  expect(bug.written.err).not.toContain('secret')
  expect(bug.written.err).not.toContain('.ts')
  expect(reportFailure(kept().terminal, new CliFailure('x', [], 130), false)).toBe(130)
})

test('§29: explain says whether slots are told, learnt or neither', () => {
  const cost = (slots: number | null) => ({
    ...{ backlog_ms: 0, own_ms: 0, fleet_ms: 0, slot_wait_ms: 0, cold_ms: 0, matched_share: 0, total_ms: 0 },
    slots,
  })
  for (const [told, slots, words] of [
    [8, 8, '8'],
    [null, 12, 'learnt 12'],
    [64, 8, 'learnt 8, told 64'],
    [null, null, 'not told'],
  ] as const)
    expect(slotsCell({ slots_total: told, cost: cost(slots) })).toBe(words)
  expect(slotsCell({ slots_total: 4, cost: null })).toBe('4')
  expect(slotsCell({ slots_total: null, cost: null })).toBe('not told')
})

test('§24: explain begins with what happened and why', () => {
  const route = (node: string, verdict: 'chosen' | 'eligible' | 'refused', reason: string, ms: number | null) => ({
    node_id: node,
    model_profile_id: 'prf',
    node_state: 'ready',
    verdict,
    reason,
    own: true,
    in_flight: 0,
    slots_total: 1,
    ttft_ewma_ms: null,
    tokens_per_second: null,
    cost:
      ms === null
        ? null
        : { backlog_ms: 0, own_ms: ms, fleet_ms: 0, slot_wait_ms: 0, cold_ms: 0, matched_share: 0, total_ms: ms },
  })
  const at = '2026-11-20T16:00:00Z'
  const tried = (result: 'placed' | 'refused', code: string | null, ...routes: ReturnType<typeof route>[]) => ({
    model: 'm',
    tries: [{ at, result, code, routes }],
  })
  const chosen = route('node_a', 'chosen', 'fastest', 120)
  expect(inWords(tried('placed', null, chosen))).toBe(
    'The request for m went to node_a, where its first token was expected after 120 ms. No other node has the model.',
  )
  const others = [
    route('node_b', 'eligible', 'slower', 300),
    route('node_c', 'refused', 'not_ready', null),
    route('node_d', 'refused', 'not_ready', null),
    route('node_e', 'refused', 'privacy_class', null),
  ]
  expect(inWords(tried('placed', null, chosen, ...others))).toBe(
    'The request for m went to node_a, where its first token was expected after 120 ms. Of the other 4 nodes, 1 could have served it and was expected to be slower, 2 could not (not ready) and 1 could not (privacy class).',
  )
  expect(inWords(tried('refused', 'no_route_available', ...others.slice(1, 2)))).toBe(
    'No node took the request for m: no route available. Of the other node, 1 could not (not ready).',
  )
})
