import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { joinedMetrics } from '../../../src/actors/siblings/metrics-text.ts'
import { createSiblings } from '../../../src/actors/siblings/siblings.ts'
import { MetricsText } from '../../../src/protocol/wire/admin/processes.ts'
import { fixture } from '../../support/run/fixture.ts'

const doors: ReturnType<typeof Bun.serve>[] = []
const openDoor = (name: string, answer: () => Response | Promise<Response>) =>
  doors.push(Bun.serve({ unix: join(folder, name), fetch: answer }))

afterAll(async () => {
  await Promise.all(doors.map((door) => door.stop(true)))
  rmSync(folder, { recursive: true, force: true })
})
const folder = mkdtempSync(join(tmpdir(), 'siblings-'))
const asking = await fixture(
  createSiblings({
    index: 0,
    socketFolder: folder,
    socketName: '0.sock',
    secret: 'a',
    doors: [],
    leads: true,
  }),
)

test('§33: the metrics say how many processes are missing from them', async () => {
  openDoor('1.sock', () => Response.json({ index: 1, text: '# TYPE a counter\na{b="c"} 2\n' }))
  const whole = await asking.survey('metrics', {}, MetricsText)
  expect(whole.silent).toBe(0)
  expect(joinedMetrics(whole.answers, whole.silent).split('\n')).toEqual([
    '# TYPE a counter',
    'a{process="1",b="c"} 2',
    expect.stringMatching(/^# HELP svc_processes_silent /),
    '# TYPE svc_processes_silent gauge',
    'svc_processes_silent 0',
    '',
  ])

  // One that never answers, one that answers with an error, and one whose answer is no text of metrics.
  openDoor('2.sock', () => new Promise<Response>(() => {}))
  openDoor('3.sock', () => new Response(null, { status: 500 }))
  openDoor('4.sock', () => Response.json({ index: 4 }))
  const part = await asking.survey('metrics', {}, MetricsText)
  expect(part.answers).toEqual(whole.answers)
  expect(joinedMetrics(part.answers, part.silent)).toEndWith('\nsvc_processes_silent 3\n')
})
