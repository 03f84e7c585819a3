import { isObject, type Json } from '../../json/json-object.ts'

/** Under it a translated request keeps whether its client wants the model to think; no writer of JSON sees it. */
export const thinks: unique symbol = Symbol('thinks')

export interface Thinking {
  readonly [thinks]?: boolean
}

/** Nothing where the client says nothing: a model's own default stands. */
export const thinkingAsked = (on: boolean | null): Thinking => (on === null ? {} : { [thinks]: on })

/** What switches it, beside what the client itself has said to the template. */
export function withTemplate(members: Json, { chat_template_kwargs: own }: Json): Json {
  const { chat_template_kwargs: ours } = members
  if (!isObject(ours) || !isObject(own)) return members
  return { ...members, chat_template_kwargs: { ...ours, ...own } }
}
