import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

const root = resolve(import.meta.dir, '../../..')
const rules = join(root, 'tests/support/openapi/redocly.yaml')
const lintMs = 120_000

const folder = mkdtempSync(join(tmpdir(), 'penstock-lint-'))
const gateway = await fixture(startTestGateway())

afterAll(() => rmSync(folder, { recursive: true }))

interface Report {
  readonly totals: { readonly errors: number; readonly warnings: number }
  readonly problems: readonly {
    readonly ruleId: string
    readonly message: string
    readonly location: readonly object[]
  }[]
}

/** It tells nobody that it was run, and asks for no newer one. */
async function lint(document: string): Promise<Report> {
  const file = join(folder, 'openapi.json')
  await Bun.write(file, document)
  const cli = join(root, 'node_modules/@redocly/cli/bin/cli.js')
  const child = Bun.spawn(['node', cli, 'lint', file, `--config=${rules}`, '--format=json', '--max-problems=1000'], {
    env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
    stderr: 'pipe',
  })
  const [out, wrong] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  await child.exited
  const text = out.slice(out.indexOf('{'), out.lastIndexOf('}') + 1)
  if (text === '') throw new Error(wrong.slice(-1_000))
  return JSON.parse(text) as Report
}

test(
  '§35: a linter finds nothing in the description without a written reason',
  async () => {
    const { problems, totals } = await lint(await (await gateway.ask('GET', '/openapi.json')).text())
    expect(problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]])).toEqual([])
    expect(totals).toMatchObject({ errors: 0, warnings: 0 })
  },
  lintMs,
)

test(
  'the linter looks: a tag that nobody defines, and an example of another type',
  async () => {
    const document = (await (await gateway.ask('GET', '/openapi.json')).json()) as {
      tags: { name: string }[]
      components: { schemas: { ChatRequest: { properties: { model: object } } } }
    }
    document.tags = document.tags.filter(({ name }) => name !== 'Inference')
    document.components.schemas.ChatRequest.properties.model = { type: 'string', examples: [1] }
    const { problems } = await lint(JSON.stringify(document))
    const found = new Set(problems.map(({ ruleId }) => ruleId))
    expect([...found].sort()).toEqual(['no-invalid-schema-examples', 'operation-tag-defined'])
  },
  lintMs,
)
