import { expect, test } from 'bun:test'
import { Problem } from '../../src/errors.ts'
import { echoOf } from '../../src/protocol/dialects/responses/echo.ts'
import { chatOfResponses } from '../../src/protocol/dialects/responses/request.ts'
import { ResponsesStream } from '../../src/protocol/dialects/responses/stream.ts'

/**
 * Found by reading: what a namespace says of itself was copied into each of its functions, without a bound of either, so
 * that 8 MiB of a request became 400 GB; and each call that a node made was looked for among all of them, one by one. Fix:
 * bounds on the functions of a request and on the copies, and a table by the names that nodes use.
 */
const functions = (count: number) => Array.from({ length: count }, (_, at) => ({ type: 'function', name: `f${at}` }))
const spaced = (count: number, description: string) => ({
  type: 'namespace',
  name: 'crm',
  description,
  tools: functions(count),
})
const asked = (...tools: { readonly type: string }[]) => ({ model: 'm', input: 'x', tools })

function refusal(tools: { readonly type: string }[]): unknown {
  try {
    chatOfResponses(asked(...tools))
    return null
  } catch (problem) {
    return problem instanceof Problem ? [problem.code, problem.options.param] : problem
  }
}
const refused = ['invalid_request', 'tools']
const plain = { type: 'function', name: 'g' }

test('§28: a request has at most 1,024 functions, those in namespaces too', () => {
  expect(refusal([spaced(1_023, 'Of customers.'), plain])).toBeNull()
  expect(refusal([spaced(1_024, 'Of customers.'), plain])).toEqual(refused)
  expect(refusal([spaced(512, ''), spaced(513, '')])).toEqual(refused)
})

test('§28: what namespaces say of themselves is repeated with each function up to 1 Mi characters in all', () => {
  const long = 'x'.repeat(100 * 1024)
  expect(refusal([spaced(10, long)])).toBeNull()
  expect(refusal([spaced(11, long)])).toEqual(refused)
  expect(refusal([spaced(6, long), spaced(6, long)])).toEqual(refused)
  expect(refusal([{ ...spaced(11, ''), name: long } as { type: string }])).toEqual(refused)
})

function chunkOf(count: number): string {
  const calls = Array.from({ length: count }, (_, index) => ({ index, function: { name: 'crm__none' } }))
  return JSON.stringify({ choices: [{ index: 0, delta: { tool_calls: calls } }] })
}
const streamFor = (declared: number) =>
  new ResponsesStream({ id: 'a', created: 0, model: 'm' }, echoOf(asked(spaced(declared, ''))))

/** Processor time of a chunk with many calls, µs: the least of three, since others work here, too. */
function cpuUs(declared: number): number {
  const once = () => {
    const [stream, chunk] = [streamFor(declared), chunkOf(256)]
    const before = process.cpuUsage()
    expect(stream.accept(chunk).kind).toBe('chunk')
    const { user, system } = process.cpuUsage(before)
    return user + system
  }
  return Math.min(once(), once(), once())
}

test('§28: a chunk with as many calls as an answer may have costs the same, whatever the request declares', () => {
  cpuUs(10)
  expect(cpuUs(20_000)).toBeLessThan(20 * cpuUs(10))
  expect(streamFor(20_000).accept(chunkOf(20_000)).kind).toBe('failed')
})
