import { describe, expect, test } from 'bun:test'
import { polledText, polledTextMax, readPolled } from '../../../src/actors/polls/polled-text.ts'
import type { PollResult, RuntimeReport } from '../../../src/polling/node-watch.ts'
import { rankReports } from '../../../src/polling/rank-reports.ts'
import type { RuntimeStatus } from '../../../src/runtimes/runtime.ts'
import { recordedStatuses } from '../../runtimes/recorded-statuses.ts'

const answered = (reports: readonly RuntimeReport[]): PollResult => ({ kind: 'answered', reports })
const model = { id: 'm', contextLength: 8_192, ready: true, loaded: true }
const status: RuntimeStatus = {
  kind: 'vllm',
  state: 'ready',
  models: [model],
  slotsTotal: null,
  slotsFree: null,
  queueDepth: 0,
}
/** The text of an answer whose only model has these members, too. */
const withModel = (members: object) =>
  polledText(answered([{ label: '', status: { ...status, models: [{ ...model, ...members }] } }])) ?? ''

describe('§37: what one process has polled, another one reads', () => {
  test.each(Object.entries(recordedStatuses))('the status of %s', (_name, recorded) => {
    const result = answered(rankReports(recorded))
    expect(readPolled(polledText(result) ?? '')).toEqual(result)
  })

  test('each rank of a server, with its load', () => {
    const ranks = [0, 1].map((running) => ({ running, queueDepth: 1, cacheTokens: 4_096 }))
    const result = answered(rankReports({ ...status, ranks, startMark: 'b1' }))
    const read = readPolled(polledText(result) ?? '')
    expect(read).toEqual(result)
    expect(read).toMatchObject({ reports: [{ label: '' }, { label: 'rank 1', status: { rank: 1, running: 1 } }] })
  })

  test('a member that requests must not have stays one: JSON leaves it out', () => {
    const askedWith = { lora_path: undefined, lora: [{ id: 0, scale: 1 }] }
    const read = readPolled(withModel({ askedWith }))
    const [report] = read?.kind === 'answered' ? read.reports : []
    expect(Object.entries(report?.status.models[0]?.askedWith ?? {})).toEqual(Object.entries(askedWith))
  })

  test('a failure, but for one that is of the process alone', () => {
    const refused = { kind: 'failed', code: 'refused' } as const
    expect(readPolled(polledText(refused) ?? '')).toEqual(refused)
    expect(polledText({ kind: 'failed', code: 'exhausted' })).toBeNull()
  })

  test('nothing longer than the bound', () => {
    const models = Array.from({ length: 1_000 }, (_, at) => ({ ...model, id: `m${at}`, adapts: 'a'.repeat(1_200) }))
    expect(JSON.stringify(models).length).toBeGreaterThan(polledTextMax)
    expect(polledText(answered([{ label: '', status: { ...status, models } }]))).toBeNull()
  })
})

test.each<readonly [string, string]>([
  ['no JSON', '{"kind":'],
  ['nothing', ''],
  ['another shape', '[]'],
  ['an unknown outcome', '{"kind":"failed","code":"bored"}'],
  ['a member that is not known', '{"kind":"failed","code":"refused","says":"<script>"}'],
  ['an id that no node may report', withModel({ id: 'line\nbreak' })],
  ['an impossible context length', withModel({ contextLength: 'long' })],
  ['an impossible cache', withModel({ cacheTokens: -1 })],
  ['words of a file that are too long', withModel({ file: { family: 'x'.repeat(65) } })],
  ['a state that no model server has', withModel({ serverState: 'dancing' })],
  [
    'keys that are none',
    withModel({}).replace('"reports"', '"agent":{"transportKeys":[1],"sealedKeys":[],"hardware":null},"reports"'),
  ],
  ['depth without end', withModel({ askedWith: { lora: 0 } }).replace(',0]', `,${'['.repeat(500)}${']'.repeat(500)}]`)],
])('§37: of a process, too, no poll is believed that is %s', (_what, text) => {
  expect(readPolled(text)).toBeNull()
})
