import { Problem } from '../../../errors.ts'
import { isObject, type Json } from '../../json/json-object.ts'
import { type ResponsesRequest, toolsMax } from '../../wire/inference/responses.ts'

type Tools = NonNullable<ResponsesRequest['tools']>

const invalid = (param: string, detail: string) =>
  new Problem('invalid_request', { param, detail: `${param}: ${detail}` })

/** A chat knows no namespaces: there the function's name begins with that of its namespace. */
export const joinedName = (namespace: string, name: string) => `${namespace}__${name}`

/** A namespace's description is copied into each of its functions: bound of all copies, UTF-16 units. */
const copiedUnitsMax = 1024 * 1024

export interface CalledFunction {
  readonly name: string
  readonly namespace?: string
}
/** Functions of namespaces by their names in the chat. */
export type Namespaced = ReadonlyMap<string, CalledFunction>
const noNamespaces: Namespaced = new Map()

const isNamespace = ({ type }: Json) => type === 'namespace'

/** A function outside of namespaces keeps its name, even if a joined name is the same. */
export function namespaced(tools: Tools): Namespaced {
  const declared: readonly Json[] = tools
  if (!declared.some(isNamespace)) return noNamespaces
  const found = new Map<string, CalledFunction>()
  for (const { name: namespace, tools: inner } of declared.filter(isNamespace)) {
    if (typeof namespace !== 'string' || !Array.isArray(inner)) continue
    for (const tool of inner) {
      if (!isObject(tool) || typeof tool.name !== 'string') continue
      const joined = joinedName(namespace, tool.name)
      if (!found.has(joined)) found.set(joined, { name: tool.name, namespace })
    }
  }
  for (const { type, name } of declared) if (type === 'function' && typeof name === 'string') found.delete(name)
  return found
}

/** A response's name for a function that a node has called by its name in the chat. */
export const calledFunction = (functions: Namespaced, called: string): CalledFunction =>
  functions.get(called) ?? { name: called }

function functionOf(tool: Json, at: string): Json & { readonly name: string } {
  const { type, name, description, parameters, strict } = tool
  if (type !== 'function') {
    const detail = `${at}: this gateway runs no tools of its own; only functions can be used`
    throw new Problem('tool_not_supported', { param: `${at}.type`, detail })
  }
  if (typeof name !== 'string') throw invalid(`${at}.name`, 'a function has a name')
  const known = { description, parameters, strict }
  return { name, ...Object.fromEntries(Object.entries(known).filter(([, value]) => value != null)) }
}

/** The model sees a namespace's description with each of its functions. */
function* spaced({ name: namespace, description: about, tools }: Json, at: string): Generator<Json> {
  if (typeof namespace !== 'string') throw invalid(`${at}.name`, 'a namespace has a name')
  if (!Array.isArray(tools)) throw invalid(`${at}.tools`, 'a namespace has functions')
  for (const [index, tool] of tools.entries()) {
    const known = functionOf(isObject(tool) ? tool : {}, `${at}.tools[${index}]`)
    const description = [about, known.description].filter((text) => typeof text === 'string' && text !== '').join('\n')
    yield { ...known, name: joinedName(namespace, known.name), ...(description === '' ? {} : { description }) }
  }
}

const unitsOf = (text: unknown) => (typeof text === 'string' ? text.length : 0)

/** Before a copy is made. */
function refuseMany(tools: readonly Json[]): void {
  let functions = 0
  let copiedUnits = 0
  for (const { type, name, description, tools: inner } of tools) {
    const count = type === 'namespace' && Array.isArray(inner) ? inner.length : 1
    functions += count
    if (type === 'namespace') copiedUnits += count * (unitsOf(name) + unitsOf(description))
  }
  if (functions > toolsMax) throw invalid('tools', `at most ${toolsMax} functions, those in namespaces too`)
  if (copiedUnits > copiedUnitsMax) throw invalid('tools', 'namespaces say too much to repeat it with each function')
}

/** The functions of a chat. Throws a `Problem` for tools that only OpenAI's servers run. */
export function chatTools(tools: Tools): readonly Json[] {
  const declared: readonly Json[] = tools
  refuseMany(declared)
  const functions = declared.flatMap((tool, index) => {
    const at = `tools[${index}]`
    return isNamespace(tool) ? [...spaced(tool, at)] : [functionOf(tool, at)]
  })
  return functions.map((known) => ({ type: 'function', function: known }))
}
