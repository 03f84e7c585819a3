import { Elysia } from 'elysia'
import { basePaths } from '../../../actors/operations/registry.ts'
import { readRequestBody, refuseFields, refuseRouting } from '../../../actors/operations/request-body.ts'
import { tokenPaths } from '../../../actors/operations/token-paths.ts'
import { hasMedia, type NodeReply, type TokenQuestion } from '../../../actors/tokens/node-tokens.ts'
import { Problem } from '../../../errors.ts'
import { fitMessages } from '../../../protocol/chat/fit-messages.ts'
import type { ChatRequest } from '../../../protocol/wire/inference/chat.ts'
import {
  DetokenizeRequest,
  DetokenizeResponse,
  TokenizeRequest,
  TokenizeResponse,
} from '../../../protocol/wire/inference/tokens.ts'
import type { Tokens } from '../../../runtimes/tokens/tokenizer.ts'
import type { HttpContext } from '../../frame/context.ts'
import { countedBody } from '../../frame/kept-body.ts'
import { documented } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { pinQuery } from '../../inference/pin.ts'
import { requestId } from '../../plugins/request-id.ts'
import { questionOf, readTokenRequest, type TokenExchange, whileAsked } from './token-request.ts'

const invalid = (param: string, detail: string) =>
  new Problem('invalid_request', { param, detail: `${param}: ${detail}` })

/** What no gateway may have its nodes run for a stranger, and what a text has no use for. */
const refused = ['chat_template', 'media_io_kwargs', 'mm_processor_kwargs'] as const

function readTokenize(text: string): TokenizeRequest {
  const body = readRequestBody(text, TokenizeRequest)
  const { prompt, messages, add_generation_prompt: begins, continue_final_message: goesOn } = body
  if ((prompt === undefined) === (messages === undefined)) throw invalid('prompt', 'either a prompt or messages')
  if (begins === true && goesOn === true) {
    throw invalid('continue_final_message', 'not together with add_generation_prompt')
  }
  if (messages !== undefined && body.add_special_tokens === true) {
    throw invalid('add_special_tokens', 'those of a chat come from its template')
  }
  refuseRouting(body, false)
  refuseFields(body, refused, 'only the model’s own template reads a chat here, and only texts')
  return body
}

/** A chat of which only what a template reads is left. */
function chatOf(body: TokenizeRequest & Pick<ChatRequest, 'messages'>): ChatRequest {
  const { continue_final_message: goesOn, add_generation_prompt: begins } = body
  const chat = {
    ...body,
    add_generation_prompt: begins ?? goesOn !== true,
    continue_final_message: goesOn === true ? true : undefined,
  } as unknown as ChatRequest
  fitMessages(chat)
  if (!hasMedia(chat)) return chat
  throw new Problem('unsupported_input', {
    param: 'messages',
    detail: 'messages: only texts have tokens that can be told',
  })
}

function tokensOf(
  { gateway }: HttpContext,
  question: TokenQuestion,
  body: TokenizeRequest,
): Promise<NodeReply<Tokens>> {
  const { prompt: text, messages } = body
  const strings = body.return_token_strs === true
  if (messages !== undefined) return gateway.nodeTokens.ofChat(question, chatOf({ ...body, messages }), strings)
  const special = body.add_special_tokens !== false
  return gateway.nodeTokens.ask(question, (tokenizer, ask, { upstreamModelId: model }) =>
    tokenizer.ofText(ask, { model, text: text ?? '', special, strings }),
  )
}

const metadataOf = ({ route }: NodeReply<unknown>, { requestId: request_id }: TokenQuestion) => ({
  request_id,
  runtime_id: route.runtimeId,
  runtime_kind: route.runtimeKind,
})

async function tokenize(context: HttpContext, asked: TokenExchange): Promise<[TokenizeResponse, TokenQuestion]> {
  const { access, text } = await readTokenRequest(context, asked)
  const body = readTokenize(text)
  const question = questionOf(context, asked, access, body)
  const answer = await whileAsked(context, asked.request, () => tokensOf(context, question, body))
  const { ids, strings } = answer.answer
  const said: TokenizeResponse = {
    count: ids.length,
    max_model_len: answer.route.contextLength,
    tokens: ids as number[],
    token_strs: strings as string[] | null,
    svc: metadataOf(answer, question),
  }
  return [said, question]
}

async function detokenize(context: HttpContext, asked: TokenExchange): Promise<[DetokenizeResponse, TokenQuestion]> {
  const { access, text } = await readTokenRequest(context, asked)
  const body = readRequestBody(text, DetokenizeRequest)
  refuseRouting(body, false)
  refuseFields(body, ['skip_special_tokens'], 'special tokens are written, too')
  const question = questionOf(context, asked, access, body)
  const answer = await whileAsked(context, asked.request, () =>
    context.gateway.nodeTokens.ask(question, (tokenizer, ask, { upstreamModelId: model }) =>
      tokenizer.textOf(ask, { model, ids: body.tokens }),
    ),
  )
  return [{ prompt: answer.answer, svc: metadataOf(answer, question) }, question]
}

/** A long list counts for its customer until it has been read. */
function written(context: HttpContext, { set, request }: TokenExchange, [said, question]: [object, TokenQuestion]) {
  set.headers['content-type'] = 'application/json'
  const owner = { memory: context.gateway.memory, keeperId: question.access.customerId }
  return countedBody(JSON.stringify(said), owner, request.signal)
}

type Schema = Parameters<typeof documented>[0]
const described = (text: { summary: string; description: string }, at: number, body: Schema, answer: Schema) => ({
  ...describe({ ...text, tags: ['Inference (extension)'] }),
  ...documented(body, pinQuery),
  // Checked where it is made: a million numbers more than once would hold up others.
  responses: { 200: { description: 'The answer', content: { 'application/json': { schema: answer } } } },
  security: [{ GatewayKey: [] }],
  ...(at === 0 ? {} : { hide: true }),
})

const tokenizeText = {
  summary: 'Tokenize a text or a chat',
  description:
    'As vLLM has it: by the tokenizer of a node that serves the model to you, free of charge. Where no node has one, the error is `modality_not_supported`.',
}
const detokenizeText = {
  summary: 'Write tokens as a text',
  description: 'As vLLM has it, by the same nodes.',
}

/** Tokens of a text and the text of tokens. */
export function tokenizeRoutes(context: HttpContext) {
  const app = new Elysia().use(requestId(context))
  for (const [at, base] of basePaths.entries()) {
    app
      .post(base + tokenPaths.tokenize, async (asked) => written(context, asked, await tokenize(context, asked)), {
        parse: 'none',
        detail: described(tokenizeText, at, TokenizeRequest, TokenizeResponse),
      })
      .post(base + tokenPaths.detokenize, async (asked) => written(context, asked, await detokenize(context, asked)), {
        parse: 'none',
        detail: described(detokenizeText, at, DetokenizeRequest, DetokenizeResponse),
      })
  }
  return app
}
