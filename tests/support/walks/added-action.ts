import { comparedDocuments } from '../../../scripts/settings-table.ts'
import { actsOn } from '../../../src/console/actions/action-acts.ts'
import { json, startTestGateway } from '../gateways/http-gateway.ts'

/** Run in a copy of the tree to which `node.rest` was added: prints what came of it, everywhere that an action is seen. */
const gateway = await startTestGateway()
const ask = async (method: string, path: string, as: 'viewer' | 'operator' | 'admin', body?: object) => {
  const answer = await gateway.ask(method, `/v1/admin${path}`, { as, ...(body === undefined ? {} : { json: body }) })
  return { status: answer.status, body: (await json(answer)) as never }
}
const { customer_id } = (await ask('POST', '/customers', 'admin', { display_name: 'One' })).body as {
  customer_id: string
}
const owned = { customer_id, visibility: 'private', node_class: 'standard', privacy_class: 'private' }
const node = { ...owned, url: 'http://127.0.0.1:9', name: 'rack' }
const { node_id } = (await ask('POST', '/nodes', 'admin', node)).body as { node_id: string }
const path = `/nodes/${node_id}/rest`
const refused = [
  (await ask('POST', path, 'viewer', { minutes: 5 })).status,
  (await ask('POST', path, 'operator', { minutes: 500 })).status,
]

const cli = async (...args: readonly string[]) => {
  const env = { ...process.env, SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.operator }
  const child = Bun.spawn([process.execPath, 'src/cli/main.ts', ...args], { env, stdout: 'pipe', stderr: 'inherit' })
  return new Response(child.stdout).text()
}
const help = await cli('nodes', 'rest', '--help')
const told = JSON.parse(
  await cli('nodes', 'rest', 'rack', '--minutes', '5', '--reason', 'too warm', '--json'),
) as object

const row = { node_id, name: 'rack', admin_state: 'active' }
const act = actsOn('node', row).find(({ label }) => label === 'Rest')?.act
const sent: unknown[] = []
await act?.run({ minutes: '5' }, async (step) => {
  sent.push(step)
})

const events = (await ask('GET', '/approval-events', 'viewer')).body as { events: readonly { action: string }[] }
const { actions } = (await ask('GET', '/approval-policy', 'viewer')).body as { actions: readonly { action: string }[] }
const { paths } = (await json(await gateway.ask('GET', '/openapi.json'))) as {
  paths: Record<string, { post?: object }>
}
const named = ({ action }: { readonly action: string }) => action === 'node.rest'
process.stdout.write(
  JSON.stringify({
    nodeId: node_id,
    refused,
    help,
    told,
    form: { title: act?.title, fields: act?.fields, sent },
    events: events.events.filter(named),
    policy: actions.filter(named),
    openapi: paths['/v1/admin/nodes/{node_id}/rest']?.post,
    reference: comparedDocuments()
      .flatMap(({ should }) => should.split('\n'))
      .filter((line) => line.includes('nodes rest')),
  }),
)
await gateway.stop()
