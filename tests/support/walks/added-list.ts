import { comparedDocuments } from '../../../scripts/settings-table.ts'
import { json, startTestGateway } from '../gateways/http-gateway.ts'

/** Run in a copy of the tree to which `node.name.list` was added: prints what came of it, everywhere that a list is seen. */
const gateway = await startTestGateway()
const ask = (method: string, path: string, as: 'viewer' | 'operator' | 'admin', body?: object) =>
  gateway.ask(method, `/v1/admin${path}`, { as, ...(body === undefined ? {} : { json: body }) })
const { customer_id } = (await json(await ask('POST', '/customers', 'admin', { display_name: 'One' }))) as {
  customer_id: string
}
const owned = { customer_id, visibility: 'private', node_class: 'standard', privacy_class: 'private' }
for (const [at, name] of ['rack', 'box'].entries()) {
  await ask('POST', '/nodes', 'admin', { ...owned, url: `http://127.0.0.1:${9 + at}`, name })
}

const cli = async (...args: readonly string[]) => {
  const env = { ...process.env, SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.operator }
  const child = Bun.spawn([process.execPath, 'src/cli/main.ts', ...args], { env, stdout: 'pipe', stderr: 'inherit' })
  return new Response(child.stdout).text()
}
const { actions } = (await json(await ask('GET', '/approval-policy', 'viewer'))) as {
  actions: readonly { action: string }[]
}
const { paths } = (await json(await gateway.ask('GET', '/openapi.json'))) as { paths: Record<string, { get?: object }> }
process.stdout.write(
  JSON.stringify({
    refused: [
      (await ask('GET', '/named-nodes', 'viewer')).status,
      (await ask('GET', '/named-nodes?limit=6', 'operator')).status,
    ],
    rows: await json(await ask('GET', '/named-nodes?limit=1', 'operator')),
    csv: await (await ask('GET', '/named-nodes?format=csv', 'operator')).text(),
    help: await cli('nodes', 'names', '--help'),
    printed: await cli('nodes', 'names', '--limit', '1'),
    policy: actions.filter(({ action }) => action === 'node.name.list'),
    openapi: paths['/v1/admin/named-nodes']?.get,
    reference: comparedDocuments()
      .flatMap(({ should }) => should.split('\n'))
      .filter((line) => line.includes('nodes names')),
  }),
)
await gateway.stop()
