import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { agentPrograms } from '../support/clients/agent-programs.ts'
import { compiledSuites } from '../support/clients/compiled-suites.ts'
import { langchain } from '../support/clients/javascript-suites.ts'
import { openWebUi } from '../support/clients/open-webui.ts'
import { pythonSuites } from '../support/clients/python-suites.ts'
import { goEhbp, pythonEhbp, throughDoor } from '../support/clients/sealed-suites.ts'
import type { Suite } from '../support/clients/suites.ts'
import { documentedDifferences } from '../support/differences/documented.ts'
import { openResponses } from '../support/open-responses/templates.ts'
import { serverSuites } from '../support/server-suites/server-suites.ts'

const root = join(import.meta.dir, '../..')
const suites: readonly Suite[] = [
  openResponses,
  ...serverSuites,
  ...compiledSuites,
  langchain,
  ...pythonSuites,
  openWebUi,
  ...agentPrograms,
  goEhbp,
  pythonEhbp,
  throughDoor,
]
const page = readFileSync(join(root, 'docs/compatibility.md'), 'utf8')
const table = page.split('<!-- suites:begin -->')[1]?.split('<!-- suites:end -->')[0] ?? ''
const rows = table
  .trim()
  .split('\n')
  .slice(2)
  .map((line) => line.split('|').map((cell) => cell.trim().replaceAll('`', '')))

test('the table of suites has each suite that a test runs, with its version, its cases and its test', () => {
  const named = rows.map(([, requirement, cases, passed, , , file]) => [requirement, cases, passed, file])
  const run = suites.map(({ requirement, test: file, facts, failures = {} }) => {
    const passed = Object.keys(facts).length
    return [requirement, String(passed + Object.keys(failures).length), String(passed), file]
  })
  expect(named as unknown[]).toEqual(run)
})

test.each([
  ['claude-code', /Claude Code (\d\S+) /, '@anthropic-ai/claude-code@'],
  ['codex', /Codex (\d\S+) /, '@openai/codex@'],
  ['open-webui', /Open WebUI (\d\S+) /, 'open-webui=='],
  ['anthropic', /`anthropic` (\d\S+) /, 'anthropic=='],
  ['ollama', /program (\d\S+\d)/, 'github.com/ollama/ollama v'],
])('the guide %s names a version that was run', (guide, version, requirement) => {
  const named = version.exec(
    readFileSync(join(root, `docs/integrations/${guide}.md`), 'utf8').replaceAll('\n', ' '),
  )?.[1]
  expect(suites.map((suite) => suite.requirement)).toContain(`${requirement}${named}`)
})

test('a suite that does not pass says why, each says when it was measured, and each test is there', () => {
  const faults = rows.filter(([, , cases, passed, why, measured, file = '']) => {
    const isExplained = (why !== '') === (cases !== passed)
    return !isExplained || !/^\d{4}-\d{2}-\d{2}$/.test(measured ?? '') || !existsSync(join(root, file))
  })
  expect(faults).toEqual([])
})

test('the differences from llama.cpp that the page has are those that the tests allow, and no others', () => {
  const [, section = ''] = page.split('### Beside llama.cpp itself')
  const told = [...(section.split('\n###')[0] ?? '').matchAll(/^\| (.*?) \|/gm)].map(([, row = '']) => row).slice(2)
  const ofSuites = serverSuites.flatMap(({ cases }) => cases.flatMap(({ through }) => through?.row ?? []))
  const allowed = new Set([...documentedDifferences.map(({ row }) => row), ...ofSuites])
  expect(told.toSorted()).toEqual([...allowed].toSorted())
})
