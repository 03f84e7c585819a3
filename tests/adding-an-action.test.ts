import { expect, test } from 'bun:test'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = join(import.meta.dir, '..')

/** As CONTRIBUTING.md counts them. */
const file = `import { Type } from '@sinclair/typebox'
import { Node } from '../../protocol/wire/admin/admin.ts'
import { reason, strict } from '../../protocol/wire/shapes.ts'
import { defineAction } from '../frame/define-action.ts'

const minutes = Type.Integer({ minimum: 1, maximum: 60, description: 'How long' })

export const restNode = defineAction({
  name: 'node.rest',
  at: 'POST /v1/admin/nodes/:node_id/rest',
  policy: { role: 'operator', category: 'node_control', target: 'node' },
  summary: 'Let a node rest',
  tag: 'Nodes (extension)',
  body: Type.Object({ minutes, reason }, strict),
  result: Node,
  run: async ({ gateway, views, audit, role, params }) =>
    views.nodeNow(gateway, await gateway.pool.by(audit).setNodeAdminState(params.node_id, 'drain'), role),
  command: { words: 'nodes rest', about: 'Let a node rest' },
  form: { on: 'node', verb: 'Rest', title: 'Rest {name}', about: 'It gets no work.', done: '{name} rests.' },
})
`
const lines = ["import { restNode } from './nodes/rest.ts'", '  restNode,'] as const

/** A copy of the tree in which the action is one file, and its lines in the registry. */
function copyWithAction(): string {
  const copy = mkdtempSync(join(tmpdir(), 'penstock-walk-'))
  for (const name of ['src', 'tests/support', 'scripts', 'bench', 'docs', 'contracts', 'package.json', 'tsconfig.json'])
    cpSync(join(root, name), join(copy, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  writeFileSync(join(copy, 'src/actions/nodes/rest.ts'), file)
  const registry = join(copy, 'src/actions/registry.ts')
  const text = readFileSync(registry, 'utf8')
  writeFileSync(registry, `${lines[0]}\n${text.replace('const registry = [\n', `const registry = [\n${lines[1]}\n`)}`)
  return copy
}

test('one file and its line in the registry are a route, a policy, an event, a command and a form', async () => {
  const copy = copyWithAction()
  try {
    const child = Bun.spawn([process.execPath, 'tests/support/walks/added-action.ts'], {
      cwd: copy,
      stdout: 'pipe',
      stderr: 'inherit',
    })
    const seen = JSON.parse(await new Response(child.stdout).text()) as Readonly<Record<string, unknown>>
    expect(seen.refused).toEqual([403, 400])
    expect(seen.policy).toMatchObject([
      { method: 'POST', route_template: '/v1/admin/nodes/:node_id/rest', required_role: 'operator' },
    ])
    expect(seen.openapi).toMatchObject({ summary: 'Let a node rest', tags: ['Nodes (extension)'] })
    expect(JSON.stringify(seen.openapi)).toContain('"maximum":60')
    expect(seen.help).toStartWith('Usage: penstock nodes rest NODE_ID [options]\n\nLet a node rest\n')
    expect(seen.help).toContain('--minutes N')
    expect(seen.told).toMatchObject({ name: 'rack', admin_state: 'draining' })
    expect(seen.events).toMatchObject([{ action: 'node.rest', target_id: seen.nodeId, reason: 'too warm' }])
    expect(seen.form).toMatchObject({
      title: 'Rest rack',
      fields: [{ name: 'minutes', label: 'Minutes', kind: 'number', required: true }],
      sent: [
        { action: 'node.rest', method: 'POST', path: `/v1/admin/nodes/${seen.nodeId}/rest`, body: { minutes: 5 } },
      ],
    })
    expect(seen.reference).toEqual(['| `nodes rest NODE_ID` | Let a node rest |'])
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
})

test('CONTRIBUTING.md counts the lines of an action as they are', () => {
  const count = file.trimEnd().split('\n').length + lines.length
  const rows = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8').split('\n')
  const [row = ''] = rows.filter((line) => line.startsWith('| An action of operators'))
  expect(row.split(' | ').slice(1, 3)).toEqual([String(count), '2: itself, the registry'])
})
