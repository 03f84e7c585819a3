import { expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { operations, routeOf } from '../../../src/actors/operations/registry.ts'
import { tokenPaths } from '../../../src/actors/operations/token-paths.ts'
import { sealedOperations } from '../../../src/actors/sealed/sealed-operation.ts'
import { bracedPath } from '../../../src/http/frame/route-table.ts'
import { AnthropicErrorBody, OpenAiErrorBody } from '../../../src/protocol/wire/admin/report.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

interface Described {
  readonly responses: {
    readonly default: { readonly content: Readonly<Record<string, { readonly schema: { readonly $ref: string } }>> }
  }
}

const gateway = await fixture(startTestGateway())
const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as {
  paths: Readonly<Record<string, { readonly post: Described }>>
}
const paths = document.paths

const forms = { OpenAiError: OpenAiErrorBody, AnthropicError: AnthropicErrorBody } as const
const asked = [
  ...operations.map((operation) => [routeOf(operation), operation.envelope] as const),
  ...Object.values(tokenPaths).map(
    (path) => [`/v1/api${path}`, path === tokenPaths.countTokens ? 'anthropic' : 'openai'] as const,
  ),
]

test.each(asked)('§28: %s describes the errors that it answers with', async (path, envelope) => {
  const response = await fetch(gateway.url + path, { method: 'POST', headers: { authorization: 'Bearer nonsense' } })
  expect([response.status, response.headers.get('content-type')]).toEqual([401, 'application/json;charset=utf-8'])
  const name = envelope === 'anthropic' ? 'AnthropicError' : 'OpenAiError'
  expect([...Value.Errors(forms[name], await response.json())]).toEqual([])
  // Chat lists its codes by their statuses.
  const described = paths[path]?.post.responses.default?.content
  const schema = { $ref: `#/components/schemas/${name}` }
  if (path !== '/v1/api/chat/completions') expect(described).toMatchObject({ 'application/json': { schema } })
})

test.each(sealedOperations.map((operation) => [routeOf(operation), operation.envelope] as const))(
  '§38: %s describes the errors that it answers with, and that of a key that does not fit',
  async (route, envelope) => {
    const at = gateway.url + route.replace(':node_id', 'nowhere')
    const response = await fetch(at, { method: 'POST', headers: { authorization: 'Bearer nonsense' } })
    const name = envelope === 'anthropic' ? 'AnthropicError' : 'OpenAiError'
    expect(response.headers.get('content-type')).toStartWith('application/json')
    expect([...Value.Errors(forms[name], await response.json())]).toEqual([])
    expect(paths[bracedPath(route)]?.post.responses.default.content).toMatchObject({
      'application/json': { schema: { $ref: `#/components/schemas/${name}` } },
      'application/problem+json': { schema: { required: ['type', 'title', 'status', 'request_id'] } },
    })
  },
)
