import { Elysia } from 'elysia'
import { basePaths } from '../../actors/operations/registry.ts'
import { readRequestBody } from '../../actors/operations/request-body.ts'
import { tokenPaths } from '../../actors/operations/token-paths.ts'
import { Problem } from '../../errors.ts'
import { promptTokens } from '../../protocol/chat/token-estimate.ts'
import { chatOfMessages } from '../../protocol/dialects/messages/request.ts'
import { readJsonText } from '../../protocol/json/json-body.ts'
import { CountTokensRequest, TokensCount } from '../../protocol/wire/inference/messages.ts'
import type { HttpContext, HttpExchange } from '../frame/context.ts'
import { documented } from '../frame/reads.ts'
import { describe } from '../frame/route-table.ts'
import { inferenceAccess } from '../inference/inference-access.ts'
import { requestId } from '../plugins/request-id.ts'

async function count(context: HttpContext, exchange: HttpExchange, request: Request): Promise<TokensCount> {
  const { gateway, connections } = context
  const access = await inferenceAccess(context, request, exchange.address)
  exchange.keyId = access.keyId
  exchange.proved = true
  if (access.accountStatus !== 'active') throw new Problem('account_suspended')
  const { SVC_CHAT_BODY_BYTES_MAX: bytesMax } = gateway.config
  const text = await connections.body(request, readJsonText(request, bytesMax, context.jsonTypes))
  const asked = readRequestBody(text, CountTokensRequest)
  return { input_tokens: promptTokens(chatOfMessages({ ...asked, max_tokens: 1 })) }
}

/** Anthropic's count of a prompt's tokens: the gateway's own estimate, which is rather too high than too low (§7). */
export function countTokensRoutes(context: HttpContext) {
  const app = new Elysia().use(requestId(context))
  for (const [at, base] of basePaths.entries()) {
    app.post(base + tokenPaths.countTokens, ({ exchange, request }) => count(context, exchange, request), {
      parse: 'none',
      response: { 200: TokensCount },
      detail: {
        ...describe({
          summary: 'Count the tokens of a message',
          description: 'Anthropic-compatible. An estimate; no node is asked.',
          tags: ['Inference (extension)'],
        }),
        ...documented(CountTokensRequest, {}),
        security: [{ GatewayKey: [] }],
        ...(at === 0 ? {} : { hide: true }),
      },
    })
  }
  return app
}
