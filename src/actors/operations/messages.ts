import { messageText } from '../../protocol/dialects/messages/answer.ts'
import { chatOfMessages } from '../../protocol/dialects/messages/request.ts'
import { MessagesStream } from '../../protocol/dialects/messages/stream.ts'
import { withDigits } from '../../protocol/json/exact-numbers.ts'
import type { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import { MessagesRequest } from '../../protocol/wire/inference/messages.ts'
import { asChat } from './chat.ts'
import type { Operation } from './operation.ts'
import { readRequestBody, refuseRouting } from './request-body.ts'

const stopsOf = (body: ChatRequest) => (body as { readonly stop?: unknown }).stop

/** Anthropic's Messages: a chat for the node, and theirs for the client. */
export const messages: Operation<ChatRequest> = {
  ...asChat,
  name: 'messages',
  path: '/messages',
  summary: 'Create a message',
  description:
    'Anthropic-compatible (Messages), whole and streamed, with tools, images and reasoning. Nodes are sent a chat; tools that only Anthropic’s servers run are refused.',
  schema: MessagesRequest,
  envelope: 'anthropic',
  idPrefix: 'msg_',
  read(text) {
    const asked = withDigits(readRequestBody(text, MessagesRequest), text, ['messages', 'tools'])
    refuseRouting(asked, true)
    return chatOfMessages(asked)
  },
  written: JSON.stringify,
  writeWhole: (identity, { choices }, end, body) => messageText(identity, choices, end, stopsOf(body)),
  writer: (identity, body) => new MessagesStream(identity, stopsOf(body)),
}
