import type { Json } from '../../json/json-object.ts'

/**
 * Tools that Anthropic defines and its clients run: a request names them by their type alone, since Anthropic's models know their
 * inputs. Other models do not, so a node gets each as a function with the inputs that Anthropic and its clients publish (§35).
 */
interface ClientTool {
  readonly description: string
  readonly parameters: Json
}

const text = (description: string) => ({ type: 'string', description })
const command = (names: readonly string[]) => ({ type: 'string', enum: names, description: 'What is to be done.' })
const inputs = (properties: Json, required: readonly string[]): Json => ({ type: 'object', properties, required })

const bash: ClientTool = {
  description: 'Runs a command in a bash shell that stays open between the calls, and returns what it prints.',
  parameters: inputs(
    {
      command: text('The command. It may be left out where restart is true.'),
      restart: { type: 'boolean', description: 'True starts the shell anew.' },
    },
    [],
  ),
}

/** What both the editor and the memory do with a file. */
const ofFiles: Json = {
  view_range: {
    type: 'array',
    items: { type: 'integer' },
    minItems: 2,
    maxItems: 2,
    description:
      'Of view, if not all lines are to be shown: the first and the last one, counted from 1. A last line of -1 is the end.',
  },
  file_text: text('Of create: the whole text of the file.'),
  old_str: text('Of str_replace: the text to replace. It must stand in the file exactly once.'),
  new_str: text('Of str_replace: what stands there instead, nothing if it is left out.'),
  insert_line: {
    type: 'integer',
    description: 'Of insert: the line behind which the text is inserted, 0 for the beginning of the file.',
  },
  insert_text: text('Of insert: the text to insert.'),
}

const edits = ['view', 'create', 'str_replace', 'insert'] as const
const path = text('The absolute path of the file or the folder.')
const editor = (commands: readonly string[]): ClientTool => ({
  description: 'Shows, creates and edits text files, and lists folders.',
  parameters: inputs({ command: command(commands), path, ...ofFiles }, ['command', 'path']),
})
const undoing = editor([...edits, 'undo_edit'])

const memory: ClientTool = {
  description:
    'Keeps notes in files below /memories, which later conversations have, too. View that folder before anything else.',
  parameters: inputs(
    {
      command: command([...edits, 'delete', 'rename']),
      path: text('Of all but rename: the path of the file or the folder, below /memories.'),
      ...ofFiles,
      old_path: text('Of rename: the path as it is.'),
      new_path: text('Of rename: the path as it shall be.'),
    },
    ['command'],
  ),
}

const byType: ReadonlyMap<string, ClientTool> = new Map([
  ['bash_20241022', bash],
  ['bash_20250124', bash],
  ['text_editor_20241022', undoing],
  ['text_editor_20250124', undoing],
  ['text_editor_20250429', editor(edits)],
  ['text_editor_20250728', editor(edits)],
  ['memory_20250818', memory],
])

/** The function for a tool of this type; null: its clients do not run it, or nobody has published what it takes. */
export function clientTool(type: string, { name, max_characters: most }: Json): Json | null {
  const known = byType.get(type)
  if (known === undefined) return null
  const { description, parameters } = known
  const bound = typeof most === 'number' ? ` A view has at most ${most} characters.` : ''
  return { type: 'function', function: { name, description: description + bound, parameters } }
}
