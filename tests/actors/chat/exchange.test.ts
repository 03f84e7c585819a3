import { expect, test } from 'bun:test'
import type { ChatCommand } from '../../../src/actors/chat/chat-command.ts'
import { createApp } from '../../../src/http/app.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { nodeChunk, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

test('an open stream keeps nothing of a long prompt', async () => {
  const gateway = await startTestGateway()
  const node = startScriptedNode()
  const { chat } = gateway.gateway
  const commands: ChatCommand[] = []
  const complete: typeof chat.complete = (command) => {
    commands.push(command)
    return chat.complete(command)
  }
  const watched = Object.create(gateway.gateway, { chat: { value: { complete } } })
  const app = createApp(watched).listen({ port: 0, hostname: '127.0.0.1' })
  try {
    const made = (path: string, body: object) => gateway.ask('POST', path, { as: 'admin', json: body }).then(json)
    const { customer_id } = await made('/v1/admin/customers', { display_name: 'A' })
    const { gateway_key } = await made(`/v1/admin/customers/${customer_id}/keys`, { name: 'k' })
    const shared = { visibility: 'private', node_class: 'gpu', privacy_class: 'private' }
    await made('/v1/admin/nodes', { customer_id, url: node.url, ...shared })
    await waitUntil('the node is ready', () => gateway.gateway.router.table().routes.some(({ ready }) => ready))
    const long = 'the prompt nobody keeps. '.repeat(1_000)
    const arriving = node.next()
    const asking = postJson(`http://127.0.0.1:${app.server?.port}/v1/api/chat/completions`, gateway_key as string, {
      model: 'm',
      stream: true,
      messages: [{ role: 'user', content: long }],
      metadata: { note: long },
      svc: { job_id: 'job-1' },
    })
    const call = await arriving
    const [command] = commands
    expect(command?.text).toContain(long)
    call.open()
    await call.event(nodeChunk({ content: 'a' }))
    const response = await asking
    await waitUntil('the answer has begun', () => command?.text === '')
    expect(JSON.stringify(command?.body)).not.toContain('nobody keeps')
    expect<unknown>(command?.body).toMatchObject({ model: 'm', svc: { job_id: 'job-1' } })
    await call.event(nodeChunk({}, 'stop'))
    call.end()
    expect(await response.text()).toEndWith('data: [DONE]\n\n')
  } finally {
    await app.server?.stop(true)
    node.stop()
    await gateway.stop()
  }
})
