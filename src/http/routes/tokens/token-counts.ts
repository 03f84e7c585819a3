import { Elysia } from 'elysia'
import { basePaths } from '../../../actors/operations/registry.ts'
import { readRequestBody } from '../../../actors/operations/request-body.ts'
import { tokenPaths } from '../../../actors/operations/token-paths.ts'
import { hasMedia } from '../../../actors/tokens/node-tokens.ts'
import { Problem } from '../../../errors.ts'
import { promptTokens } from '../../../protocol/chat/token-estimate.ts'
import { chatOfMessages } from '../../../protocol/dialects/messages/request.ts'
import { chatOfResponses } from '../../../protocol/dialects/responses/request.ts'
import { anthropicRequestId } from '../../../protocol/json/problem-response.ts'
import type { ChatRequest } from '../../../protocol/wire/inference/chat.ts'
import {
  type CountMetadata,
  CountTokensRequest,
  InputTokensCount,
  InputTokensRequest,
  TokensCount,
} from '../../../protocol/wire/inference/tokens.ts'
import type { HttpContext } from '../../frame/context.ts'
import { documented } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { pinQuery } from '../../inference/pin.ts'
import { requestId } from '../../plugins/request-id.ts'
import { questionOf, readTokenRequest, type TokenExchange, whileAsked } from './token-request.ts'

interface Count {
  readonly tokens: number
  readonly svc: CountMetadata
}

/**
 * The tokens of a chat by a node's own tokenizer, else by the estimate. Whatever keeps the nodes from counting, the caller gets a
 * number that says what it is.
 */
async function counted(
  context: HttpContext,
  asked: TokenExchange,
  read: (text: string) => ChatRequest | null,
): Promise<Count> {
  const { access, text } = await readTokenRequest(context, asked)
  const request_id = asked.exchange.requestId
  const chat = read(text)
  if (chat === null) return { tokens: 0, svc: { request_id, usage_estimated: false } }
  const estimated = () => ({ tokens: promptTokens(chat), svc: { request_id, usage_estimated: true } })
  if (chat.model === '' || chat.svc?.mixture !== undefined || hasMedia(chat)) return estimated()
  const question = questionOf(context, asked, access, chat)
  try {
    const { answer: tokens, route } = await whileAsked(context, asked.request, () =>
      context.gateway.nodeTokens.ofChat(question, chat),
    )
    const { runtimeId: runtime_id, runtimeKind: runtime_kind } = route
    return { tokens: tokens.ids.length, svc: { request_id, usage_estimated: false, runtime_id, runtime_kind } }
  } catch (error) {
    if (error instanceof Problem) return estimated()
    throw error
  }
}

const readMessages = (text: string) => chatOfMessages({ ...readRequestBody(text, CountTokensRequest), max_tokens: 1 })

/** Of nothing there is nothing to count (null). Where no model is named, none can be asked. */
function readResponses(text: string): ChatRequest | null {
  const { model, input, ...rest } = readRequestBody(text, InputTokensRequest)
  const chat = chatOfResponses({ ...rest, model: model ?? '', input: input ?? '' })
  const says = (value: string | readonly unknown[] | null | undefined) => value != null && value.length !== 0
  return says(input) || says(rest.instructions) || says(rest.tools) ? chat : null
}

const described = (summary: string, at: number, body: Parameters<typeof documented>[0]) => ({
  ...describe({
    summary,
    description:
      'By the tokenizer of a node that serves the model to you, free of charge. Else it is the estimate of the gateway, and `svc.usage_estimated` is true.',
    tags: ['Inference (extension)'],
  }),
  ...documented(body, pinQuery),
  security: [{ GatewayKey: [] }],
  ...(at === 0 ? {} : { hide: true }),
})

/** How many tokens a prompt has, as Anthropic and OpenAI are asked for it. */
export function tokenCountRoutes(context: HttpContext) {
  const app = new Elysia().use(requestId(context))
  for (const [at, base] of basePaths.entries()) {
    app
      .post(
        base + tokenPaths.countTokens,
        async (asked): Promise<TokensCount> => {
          asked.set.headers[anthropicRequestId] = asked.exchange.requestId
          const { tokens, svc } = await counted(context, asked, readMessages)
          return { input_tokens: tokens, svc }
        },
        {
          parse: 'none',
          response: { 200: TokensCount },
          detail: described('Count the tokens of a message', at, CountTokensRequest),
        },
      )
      .post(
        base + tokenPaths.inputTokens,
        async (asked): Promise<InputTokensCount> => {
          const { tokens, svc } = await counted(context, asked, readResponses)
          return { object: 'response.input_tokens', input_tokens: tokens, svc }
        },
        {
          parse: 'none',
          response: { 200: InputTokensCount },
          detail: described('Count the tokens of a response’s input', at, InputTokensRequest),
        },
      )
  }
  return app
}
