// Server-sent events out of the text of a stream, however it is cut.

export interface ServerEvent {
  name: string;
  data: string;
}

export class EventReader {
  private rest = '';

  // The events that are complete with this piece.
  push(text: string): ServerEvent[] {
    this.rest += text;
    const events: ServerEvent[] = [];
    for (let end = this.rest.indexOf('\n\n'); end >= 0; end = this.rest.indexOf('\n\n')) {
      const lines = this.rest.slice(0, end).split('\n');
      this.rest = this.rest.slice(end + 2);
      const values = (field: string) => lines.filter((line) => line.startsWith(`${field}: `)).map((line) => line.slice(field.length + 2));
      const data = values('data');
      if (data.length > 0) events.push({name: values('event')[0] ?? 'message', data: data.join('\n')});
    }
    return events;
  }
}
