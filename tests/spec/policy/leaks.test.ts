import { beforeAll, describe, expect, test } from 'bun:test'
import { contents, findAll, named } from '../../support/leaks/leak-markers.ts'
import { LeakRun } from '../../support/leaks/leak-run.ts'
import { fixture } from '../../support/run/fixture.ts'

const run = await fixture(LeakRun.make())

/** What the fake node tells of itself. */
const nodeWords = { leak: 'fake-leak', weights: 'weights.gguf', failure: 'fake failure', error: 'fake error' }
/** What nobody may find anywhere, whatever the place. */
const hidden = () => ({ ...contents, ...run.tokens, ...nodeWords, apiKey: named.apiKey })
const addresses = () => ({
  nodePath: named.nodePath,
  nodeAddress: run.node.address,
  fakeAddress: `127.0.0.1:${run.fake.port}`,
})
/** The same, and what only its own place may show. */
const everything = () => ({ ...hidden(), ...addresses(), ...run.customers, ...named })

describe('§§2, 4, 18, 19: nothing is left', () => {
  test('the run has really happened', () => {
    expect(run.answers.filter((text) => text.includes(contents.output)).length).toBeGreaterThan(6)
    expect(run.errorBodies.length).toBeGreaterThan(90)
    expect(run.metrics.join()).toContain('svc_http_requests_total')
    const received = JSON.stringify(run.fake.requests.map(({ body, headers }) => [body, headers]))
    const { prompt, system, toolArguments, toolResult, image, unknownField } = contents
    for (const sent of [prompt, system, toolArguments, toolResult, image, unknownField, named.apiKey]) {
      expect(received).toContain(sent)
    }
  })

  test('§5: at the node, of what is not for it', () => {
    const received = run.fake.requests.map(({ body, headers }) => JSON.stringify([body, headers]))
    const { endUser, metadata, query, userAgent, cookie, referer, forwarded, trace, idempotencyKey } = contents
    const kept = { endUser, metadata, query, userAgent, cookie, referer, forwarded, trace, idempotencyKey }
    const { requestId, jobId } = named
    expect(
      findAll('a request to a node', received, { ...kept, ...run.tokens, ...run.customers, requestId, jobId }),
    ).toEqual([])
  })

  test('in error bodies: only the name of an unknown field, in `param`', () => {
    const { adminField: _, ...rest } = everything()
    expect(findAll('an error body', run.errorBodies, rest)).toEqual([])
  })

  test('in response headers', () => {
    expect(findAll('headers', run.headers, everything())).toEqual([])
  })

  test('in answers: of the request nothing, of the node only its message', () => {
    const { output: _, reasoning: __, ...rest } = everything()
    expect(findAll('an answer', run.answers, rest)).toEqual([])
  })

  test('in metrics: a node by its name alone, no address and no customer', () => {
    expect(run.metrics.join()).toMatch(/,node="[^"]+"/)
    expect(findAll('metrics', run.metrics, everything())).toEqual([])
  })

  test('in public reads and in those of viewers', () => {
    expect(findAll('a public read', run.publicReads, everything())).toEqual([])
    expect(findAll('a read of a viewer', run.viewerReads, everything())).toEqual([])
  })

  test('in reads of operators: addresses and customers, no key and no token', () => {
    expect(findAll('a read of an operator', run.operatorReads, hidden())).toEqual([])
    expect(run.operatorReads.join()).toContain(run.node.url)
  })

  test('in the database: a node’s row alone has its address, a receipt the job id, an approval its reason', () => {
    expect(new Set(run.database.map(({ table }) => table)).size).toBeGreaterThan(5)
    const { jobId, requestId, reason } = named
    for (const { table, row } of run.database) {
      const { url: _, name: __, ...node } = JSON.parse(row) as Record<string, unknown>
      const { reason: ___, ...event } = JSON.parse(row) as Record<string, unknown>
      const shown = table === 'nodes' ? node : table.startsWith('admin_approval_events') ? event : JSON.parse(row)
      const text = JSON.stringify(shown)
      const secrets = {
        ...hidden(),
        ...addresses(),
        requestId,
        reason,
        ...(table.startsWith('receipt_') ? {} : { jobId }),
      }
      expect(findAll(`a row of ${table}`, [text], secrets)).toEqual([])
    }
    const all = JSON.stringify(run.database)
    for (const kept of [jobId, reason, run.node.url]) expect(all).toContain(kept)
  })

  test('on command lines', () => {
    if (process.platform === 'linux') expect(run.gateway.commandLines().length).toBeGreaterThan(1)
    expect(findAll('a command line', run.gateway.commandLines(), everything())).toEqual([])
  })
})

describe('§18: nothing is left after the end', () => {
  /** Everything that a request's line may have. */
  const fields = new Set(
    (
      'ts level event request_id route method status code latency_ms key_id role ip client_request_id job_id count ' +
      'model node_id tries ttft_ms prompt_tokens completion_tokens'
    ).split(' '),
  )
  const template = /^(unmatched|\/|\/(docs|openapi\.json|healthz|readyz|metrics)|\/v1\/[a-z_:/-]+)$/
  let lines: readonly Readonly<Record<string, unknown>>[] = []

  beforeAll(async () => {
    await run.gateway.stop()
    const texts = run.gateway.logged().split('\n')
    lines = texts.filter((text) => text !== '').map((text) => JSON.parse(text) as Record<string, unknown>)
  })

  test('in the log', () => {
    const { reason } = named
    const secrets = { ...hidden(), ...addresses(), ...run.customers, reason }
    expect(findAll('the log', [run.gateway.logged()], secrets)).toEqual([])
  })

  test('in the lines of requests: codes, ids, templates and times', () => {
    const requests = lines.filter(({ event }) => event === 'request')
    expect(requests.length).toBeGreaterThan(120)
    for (const line of requests) {
      expect(Object.keys(line).filter((field) => !fields.has(field))).toEqual([])
      expect(String(line.route)).toMatch(template)
      expect(String(line.ip)).toMatch(/^[0-9a-f]+$/)
      expect([line.client_request_id ?? named.requestId, line.job_id ?? named.jobId]).toEqual([
        named.requestId,
        named.jobId,
      ])
    }
    for (const kept of [named.requestId, named.jobId]) expect(run.gateway.logged()).toContain(kept)
  })

  test('in all other lines: no word of a caller', () => {
    const others = lines.filter(({ event }) => event !== 'request').map((line) => JSON.stringify(line))
    expect(others.length).toBeGreaterThan(2)
    expect(findAll('another line', others, { ...named, loopback: '127.0.0.1:' })).toEqual([])
  })

  test('on standard output: only the key of the curl line', () => {
    const { gateway_key: _, ...rest } = everything() as Readonly<Record<string, string>>
    expect(findAll('standard output', [run.gateway.printed()], rest)).toEqual([])
  })

  test('in the data folder: neither in our files nor in those of the database', () => {
    const found: string[] = []
    let addressSeen = 0
    for (const { name, bytes, ofDatabase } of run.gateway.files()) {
      const secrets = ofDatabase ? hidden() : everything()
      for (const [what, secret] of Object.entries(secrets)) if (bytes.includes(secret)) found.push(`${what} in ${name}`)
      if (ofDatabase && bytes.includes(named.nodePath)) addressSeen++
    }
    // What is stored in clear is found: the search sees what is there.
    expect(addressSeen).toBeGreaterThan(0)
    expect(found).toEqual([])
  })
})
