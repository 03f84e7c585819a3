import { reportsAsked } from '../../protocol/dialects/members/server-reports.ts'
import { responseText } from '../../protocol/dialects/responses/answer.ts'
import { echoed } from '../../protocol/dialects/responses/echo.ts'
import { chatOfResponses, type ResponsesChat } from '../../protocol/dialects/responses/request.ts'
import { ResponsesStream } from '../../protocol/dialects/responses/stream.ts'
import { withDigits } from '../../protocol/json/exact-numbers.ts'
import { ResponsesRequest } from '../../protocol/wire/inference/responses.ts'
import { asChat } from './chat.ts'
import type { Operation } from './operation.ts'
import { readRequestBody, refuseRouting } from './request-body.ts'

/** OpenAI's Responses without their store: a chat for the node, and theirs for the client. */
export const responses: Operation<ResponsesChat> = {
  ...asChat,
  name: 'responses',
  path: '/responses',
  summary: 'Create a response',
  description:
    'OpenAI-compatible (Responses), whole and streamed, with functions, images and reasoning. Nothing is stored: each request carries its whole conversation. Nodes are sent a chat.',
  schema: ResponsesRequest,
  idPrefix: 'resp_',
  read(text) {
    const asked = withDigits(readRequestBody(text, ResponsesRequest), text, ['tools'])
    refuseRouting(asked, true)
    return chatOfResponses(asked)
  },
  written: JSON.stringify,
  writeWhole: (identity, { choices }, end, body) => responseText(identity, body[echoed], choices, end),
  writer: (identity, body) => new ResponsesStream(identity, body[echoed], reportsAsked(body)),
}
